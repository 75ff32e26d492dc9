// Sixteen virtual lanes as one zmm register (AVX-512 F, BW, VL, DQ). The operations are described in generic.h.
// Included inside a target's namespace and region, after <immintrin.h> and simd/inline.h.
#pragma once

inline constexpr int kLanes = 16;
inline constexpr int kNumRegisters = 32;

struct F32x16 {
  __m512 v;
};
struct I32x16 {
  __m512i v;
};
struct Mask16 {
  __mmask16 v;
};

// ---- Memory.
KVERN_INLINE F32x16 Load(const float* p) { return {_mm512_loadu_ps(p)}; }
KVERN_INLINE I32x16 Load(const int32_t* p) { return {_mm512_loadu_si512(p)}; }
KVERN_INLINE void Store(float* p, F32x16 x) { _mm512_storeu_ps(p, x.v); }
KVERN_INLINE void Store(int32_t* p, I32x16 x) { _mm512_storeu_si512(p, x.v); }
KVERN_INLINE F32x16 LoadPartial(const float* p, uint32_t n) {
  return {_mm512_maskz_loadu_ps(static_cast<__mmask16>((1u << n) - 1), p)};
}
KVERN_INLINE void StorePartial(float* p, F32x16 x, uint32_t n) {
  _mm512_mask_storeu_ps(p, static_cast<__mmask16>((1u << n) - 1), x.v);
}
KVERN_INLINE F32x16 LoadF16(const uint16_t* p) {
  return {_mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)))};
}
KVERN_INLINE F32x16 LoadBf16(const uint16_t* p) {
  const __m512i wide = _mm512_cvtepu16_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
  return {_mm512_castsi512_ps(_mm512_slli_epi32(wide, 16))};
}
KVERN_INLINE void StoreF16(uint16_t* p, F32x16 x) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p),
                      _mm512_cvtps_ph(x.v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}
KVERN_INLINE F32x16 LoadBf16Of(const uint16_t* pairs, int which) {
  const __m512i x = _mm512_loadu_si512(pairs);
  const __m512i upper = _mm512_set1_epi32(static_cast<int32_t>(0xffff0000));
  return {_mm512_castsi512_ps(which == 0 ? _mm512_slli_epi32(x, 16) : _mm512_and_si512(x, upper))};
}
KVERN_INLINE F32x16 LoadE5m2(const uint8_t* p, int which) {
  const __m256i pairs = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
  const __m256i top = _mm256_set1_epi16(static_cast<int16_t>(0xff00));
  return {_mm512_cvtph_ps(which == 0 ? _mm256_slli_epi16(pairs, 8) : _mm256_and_si256(pairs, top))};
}
KVERN_INLINE F32x16 LoadE4m3(const uint8_t* p, int which) {
  const __m256i pairs = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
  const __m256i shifted = _mm256_srai_epi16(which == 0 ? _mm256_slli_epi16(pairs, 8) : pairs, 1);
  return {_mm512_cvtph_ps(_mm256_and_si256(shifted, _mm256_set1_epi16(static_cast<int16_t>(0xbf80))))};
}
KVERN_INLINE I32x16 LoadI8(const int8_t* p) {
  return {_mm512_cvtepi8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)))};
}
KVERN_INLINE I32x16 LoadU8(const uint8_t* p) {
  return {_mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)))};
}
KVERN_INLINE void StoreLowBytes(int8_t* p, I32x16 x) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm512_cvtepi32_epi8(x.v));
}
KVERN_INLINE void Prefetch(const void* p) { _mm_prefetch(static_cast<const char*>(p), _MM_HINT_T1); }

// ---- f32 arithmetic.
KVERN_INLINE F32x16 Set1(float x) { return {_mm512_set1_ps(x)}; }
KVERN_INLINE F32x16 Zero() { return {_mm512_setzero_ps()}; }
KVERN_INLINE F32x16 Add(F32x16 a, F32x16 b) { return {_mm512_add_ps(a.v, b.v)}; }
KVERN_INLINE F32x16 Sub(F32x16 a, F32x16 b) { return {_mm512_sub_ps(a.v, b.v)}; }
KVERN_INLINE F32x16 Mul(F32x16 a, F32x16 b) { return {_mm512_mul_ps(a.v, b.v)}; }
KVERN_INLINE F32x16 Div(F32x16 a, F32x16 b) { return {_mm512_div_ps(a.v, b.v)}; }
KVERN_INLINE F32x16 Sqrt(F32x16 a) { return {_mm512_sqrt_ps(a.v)}; }
KVERN_INLINE F32x16 Fma(F32x16 a, F32x16 b, F32x16 c) { return {_mm512_fmadd_ps(a.v, b.v, c.v)}; }
KVERN_INLINE F32x16 Max(F32x16 a, F32x16 b) { return {_mm512_max_ps(a.v, b.v)}; }
KVERN_INLINE F32x16 Round(F32x16 a) {
  return {_mm512_roundscale_ps(a.v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)};
}

// ---- Lane masks.
KVERN_INLINE Mask16 Greater(F32x16 a, F32x16 b) { return {_mm512_cmp_ps_mask(a.v, b.v, _CMP_GT_OQ)}; }
KVERN_INLINE Mask16 Equal(F32x16 a, F32x16 b) { return {_mm512_cmp_ps_mask(a.v, b.v, _CMP_EQ_OQ)}; }
KVERN_INLINE Mask16 Greater(I32x16 a, I32x16 b) { return {_mm512_cmpgt_epi32_mask(a.v, b.v)}; }
KVERN_INLINE Mask16 LanesBelow(int32_t n) {
  const __m512i lane = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
  return {_mm512_cmpgt_epi32_mask(_mm512_set1_epi32(n), lane)};
}
KVERN_INLINE F32x16 Select(Mask16 mask, F32x16 a, F32x16 b) { return {_mm512_mask_blend_ps(mask.v, b.v, a.v)}; }
KVERN_INLINE I32x16 Select(Mask16 mask, I32x16 a, I32x16 b) { return {_mm512_mask_blend_epi32(mask.v, b.v, a.v)}; }
KVERN_INLINE uint32_t MaskBits(Mask16 mask) { return mask.v; }

// ---- i32.
KVERN_INLINE I32x16 Set1I32(int32_t x) { return {_mm512_set1_epi32(x)}; }
KVERN_INLINE I32x16 Add(I32x16 a, I32x16 b) { return {_mm512_add_epi32(a.v, b.v)}; }
KVERN_INLINE I32x16 Sub(I32x16 a, I32x16 b) { return {_mm512_sub_epi32(a.v, b.v)}; }
KVERN_INLINE I32x16 Max(I32x16 a, I32x16 b) { return {_mm512_max_epi32(a.v, b.v)}; }
KVERN_INLINE I32x16 And(I32x16 a, I32x16 b) { return {_mm512_and_si512(a.v, b.v)}; }
KVERN_INLINE I32x16 Or(I32x16 a, I32x16 b) { return {_mm512_or_si512(a.v, b.v)}; }
KVERN_INLINE I32x16 Xor(I32x16 a, I32x16 b) { return {_mm512_xor_si512(a.v, b.v)}; }
template <int kBits>
KVERN_INLINE I32x16 ShiftLeft(I32x16 a) {
  return {_mm512_slli_epi32(a.v, kBits)};
}
template <int kBits>
KVERN_INLINE I32x16 ShiftRight(I32x16 a) {
  return {_mm512_srli_epi32(a.v, kBits)};
}
template <int kBits>
KVERN_INLINE I32x16 ShiftRightSigned(I32x16 a) {
  return {_mm512_srai_epi32(a.v, kBits)};
}

// ---- Between the two.
KVERN_INLINE I32x16 BitsOf(F32x16 a) { return {_mm512_castps_si512(a.v)}; }
KVERN_INLINE F32x16 FloatFromBits(I32x16 a) { return {_mm512_castsi512_ps(a.v)}; }
KVERN_INLINE I32x16 ToI32(F32x16 a) { return {_mm512_cvtps_epi32(a.v)}; }
KVERN_INLINE F32x16 ToF32(I32x16 a) { return {_mm512_cvtepi32_ps(a.v)}; }

// ---- Over all lanes.
KVERN_INLINE float HorizontalSum(F32x16 a) {
  const __m256 by8 = _mm256_add_ps(_mm512_castps512_ps256(a.v), _mm512_extractf32x8_ps(a.v, 1));
  const __m128 by4 = _mm_add_ps(_mm256_castps256_ps128(by8), _mm256_extractf128_ps(by8, 1));
  const __m128 by2 = _mm_add_ps(by4, _mm_movehl_ps(by4, by4));
  return _mm_cvtss_f32(_mm_add_ss(by2, _mm_shuffle_ps(by2, by2, 1)));
}
KVERN_INLINE float HorizontalMax(F32x16 a) {
  const __m256 by8 = _mm256_max_ps(_mm512_castps512_ps256(a.v), _mm512_extractf32x8_ps(a.v, 1));
  const __m128 by4 = _mm_max_ps(_mm256_castps256_ps128(by8), _mm256_extractf128_ps(by8, 1));
  const __m128 by2 = _mm_max_ps(by4, _mm_movehl_ps(by4, by4));
  return _mm_cvtss_f32(_mm_max_ss(by2, _mm_shuffle_ps(by2, by2, 1)));
}
KVERN_INLINE int32_t HorizontalSum(I32x16 a) {
  const __m256i by8 = _mm256_add_epi32(_mm512_castsi512_si256(a.v), _mm512_extracti32x8_epi32(a.v, 1));
  const __m128i by4 = _mm_add_epi32(_mm256_castsi256_si128(by8), _mm256_extracti128_si256(by8, 1));
  const __m128i by2 = _mm_add_epi32(by4, _mm_shuffle_epi32(by4, 0x4e));
  return _mm_cvtsi128_si32(_mm_add_epi32(by2, _mm_shuffle_epi32(by2, 0xb1)));
}
KVERN_INLINE int32_t HorizontalMax(I32x16 a) {
  const __m256i by8 = _mm256_max_epi32(_mm512_castsi512_si256(a.v), _mm512_extracti32x8_epi32(a.v, 1));
  const __m128i by4 = _mm_max_epi32(_mm256_castsi256_si128(by8), _mm256_extracti128_si256(by8, 1));
  const __m128i by2 = _mm_max_epi32(by4, _mm_shuffle_epi32(by4, 0x4e));
  return _mm_cvtsi128_si32(_mm_max_epi32(by2, _mm_shuffle_epi32(by2, 0xb1)));
}

template <int kDistance>
KVERN_INLINE F32x16 Butterfly(F32x16 a) {
  constexpr __mmask16 kUpper = kDistance == 1 ? 0xaaaa : kDistance == 2 ? 0xcccc : kDistance == 4 ? 0xf0f0 : 0xff00;
  __m512 b;
  if constexpr (kDistance <= 2) {
    b = _mm512_permute_ps(a.v, kDistance == 1 ? 0xb1 : 0x4e);
  } else {
    b = _mm512_shuffle_f32x4(a.v, a.v, kDistance == 4 ? 0xb1 : 0x4e);
  }
  return {_mm512_mask_sub_ps(_mm512_add_ps(a.v, b), kUpper, b, a.v)};
}

template <bool kIsMax>
KVERN_INLINE __m512i MaxOrSum(__m512i a, __m512i b) {
  return kIsMax ? _mm512_max_epi32(a, b) : _mm512_add_epi32(a, b);
}
template <bool kIsMax>
KVERN_INLINE void ReduceOf4(const I32x16 (&a)[4], int32_t* out) {
  const __m512i x = MaxOrSum<kIsMax>(_mm512_unpacklo_epi32(a[0].v, a[1].v), _mm512_unpackhi_epi32(a[0].v, a[1].v));
  const __m512i y = MaxOrSum<kIsMax>(_mm512_unpacklo_epi32(a[2].v, a[3].v), _mm512_unpackhi_epi32(a[2].v, a[3].v));
  const __m512i quads = MaxOrSum<kIsMax>(_mm512_unpacklo_epi64(x, y), _mm512_unpackhi_epi64(x, y));
  const __m512i pairs = MaxOrSum<kIsMax>(quads, _mm512_shuffle_i64x2(quads, quads, 0x4e));
  const __m512i all = MaxOrSum<kIsMax>(pairs, _mm512_shuffle_i64x2(pairs, pairs, 0xb1));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(out), _mm512_castsi512_si128(all));
}
KVERN_INLINE void HorizontalSumOf4(const I32x16 (&a)[4], int32_t* out) { ReduceOf4<false>(a, out); }
KVERN_INLINE void HorizontalMaxOf4(const I32x16 (&a)[4], int32_t* out) { ReduceOf4<true>(a, out); }

// ---- Bytes, four to a lane.
struct Bytes64 {
  __m512i v;
};
KVERN_INLINE Bytes64 LoadBytes(const uint8_t* p) { return {_mm512_loadu_si512(p)}; }
KVERN_INLINE void StoreBytes(uint8_t* p, Bytes64 x) { _mm512_storeu_si512(p, x.v); }
KVERN_INLINE Bytes64 Or(Bytes64 a, Bytes64 b) { return {_mm512_or_si512(a.v, b.v)}; }
template <int kFrom, int kCount, int kTo>
KVERN_INLINE Bytes64 Field(Bytes64 a) {
  __m512i x = a.v;
  if constexpr (kFrom > kTo) x = _mm512_srli_epi16(x, kFrom - kTo);
  if constexpr (kFrom < kTo) x = _mm512_slli_epi16(x, kTo - kFrom);
  return {_mm512_and_si512(x, _mm512_set1_epi8(static_cast<char>(((1 << kCount) - 1) << kTo)))};
}
template <int kIndex>
KVERN_INLINE I32x16 ByteOfLanes(Bytes64 a) {
  return {_mm512_and_si512(_mm512_srli_epi32(a.v, 8 * kIndex), _mm512_set1_epi32(0xff))};
}
