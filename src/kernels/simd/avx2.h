// Sixteen virtual lanes as two ymm registers (AVX2, FMA, F16C). The operations are described in generic.h.
// Included inside a target's namespace and region, after <immintrin.h> and simd/inline.h.
#pragma once

inline constexpr int kLanes = 16;
inline constexpr int kNumRegisters = 8;

// Lanes 0-7 in `lo`, 8-15 in `hi`.
struct F32x16 {
  __m256 lo, hi;
};
struct I32x16 {
  __m256i lo, hi;
};
// All bits of a lane are set or none.
struct Mask16 {
  __m256i lo, hi;
};

// ---- Memory.
KVERN_INLINE F32x16 Load(const float* p) { return {_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)}; }
KVERN_INLINE I32x16 Load(const int32_t* p) {
  return {_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)),
          _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p + 8))};
}
KVERN_INLINE void Store(float* p, F32x16 x) {
  _mm256_storeu_ps(p, x.lo);
  _mm256_storeu_ps(p + 8, x.hi);
}
KVERN_INLINE void Store(int32_t* p, I32x16 x) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), x.lo);
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p + 8), x.hi);
}
KVERN_INLINE Mask16 LanesBelow(int32_t n) {
  const __m256i limit = _mm256_set1_epi32(n);
  return {_mm256_cmpgt_epi32(limit, _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7)),
          _mm256_cmpgt_epi32(limit, _mm256_setr_epi32(8, 9, 10, 11, 12, 13, 14, 15))};
}
KVERN_INLINE F32x16 LoadPartial(const float* p, uint32_t n) {
  const Mask16 mask = LanesBelow(static_cast<int32_t>(n));
  return {_mm256_maskload_ps(p, mask.lo), _mm256_maskload_ps(p + 8, mask.hi)};
}
KVERN_INLINE void StorePartial(float* p, F32x16 x, uint32_t n) {
  const Mask16 mask = LanesBelow(static_cast<int32_t>(n));
  _mm256_maskstore_ps(p, mask.lo, x.lo);
  _mm256_maskstore_ps(p + 8, mask.hi, x.hi);
}
KVERN_INLINE F32x16 LoadF16(const uint16_t* p) {
  return {_mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))),
          _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p + 8)))};
}
KVERN_INLINE F32x16 LoadBf16(const uint16_t* p) {
  const __m256i lo = _mm256_cvtepu16_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
  const __m256i hi = _mm256_cvtepu16_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p + 8)));
  return {_mm256_castsi256_ps(_mm256_slli_epi32(lo, 16)), _mm256_castsi256_ps(_mm256_slli_epi32(hi, 16))};
}
KVERN_INLINE void StoreF16(uint16_t* p, F32x16 x) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm256_cvtps_ph(x.lo, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p + 8),
                   _mm256_cvtps_ph(x.hi, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}
KVERN_INLINE __m256 EightBf16Of(const uint16_t* pairs, int which) {
  const __m256i x = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(pairs));
  const __m256i upper = _mm256_set1_epi32(static_cast<int32_t>(0xffff0000));
  return _mm256_castsi256_ps(which == 0 ? _mm256_slli_epi32(x, 16) : _mm256_and_si256(x, upper));
}
KVERN_INLINE F32x16 LoadBf16Of(const uint16_t* pairs, int which) {
  return {EightBf16Of(pairs, which), EightBf16Of(pairs + 16, which)};
}
KVERN_INLINE F32x16 LoadSixteenF16(__m256i x) {
  return {_mm256_cvtph_ps(_mm256_castsi256_si128(x)), _mm256_cvtph_ps(_mm256_extracti128_si256(x, 1))};
}
KVERN_INLINE F32x16 LoadE5m2(const uint8_t* p, int which) {
  const __m256i pairs = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
  const __m256i top = _mm256_set1_epi16(static_cast<int16_t>(0xff00));
  return LoadSixteenF16(which == 0 ? _mm256_slli_epi16(pairs, 8) : _mm256_and_si256(pairs, top));
}
KVERN_INLINE F32x16 LoadE4m3(const uint8_t* p, int which) {
  const __m256i pairs = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
  const __m256i shifted = _mm256_srai_epi16(which == 0 ? _mm256_slli_epi16(pairs, 8) : pairs, 1);
  return LoadSixteenF16(_mm256_and_si256(shifted, _mm256_set1_epi16(static_cast<int16_t>(0xbf80))));
}
KVERN_INLINE I32x16 LoadI8(const int8_t* p) {
  const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
  return {_mm256_cvtepi8_epi32(bytes), _mm256_cvtepi8_epi32(_mm_srli_si128(bytes, 8))};
}
KVERN_INLINE I32x16 LoadU8(const uint8_t* p) {
  const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
  return {_mm256_cvtepu8_epi32(bytes), _mm256_cvtepu8_epi32(_mm_srli_si128(bytes, 8))};
}
KVERN_INLINE void StoreLowBytes(int8_t* p, I32x16 x) {
  const __m256i low_bytes = _mm256_setr_epi8(0, 4, 8, 12, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1,  //
                                             0, 4, 8, 12, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1);
  const __m256i lo = _mm256_shuffle_epi8(x.lo, low_bytes);
  const __m256i hi = _mm256_shuffle_epi8(x.hi, low_bytes);
  const __m128i first = _mm_unpacklo_epi32(_mm256_castsi256_si128(lo), _mm256_extracti128_si256(lo, 1));
  const __m128i second = _mm_unpacklo_epi32(_mm256_castsi256_si128(hi), _mm256_extracti128_si256(hi, 1));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm_unpacklo_epi64(first, second));
}
KVERN_INLINE void Prefetch(const void* p) { _mm_prefetch(static_cast<const char*>(p), _MM_HINT_T1); }

// ---- f32 arithmetic.
KVERN_INLINE F32x16 Set1(float x) {
  const __m256 v = _mm256_set1_ps(x);
  return {v, v};
}
KVERN_INLINE F32x16 Zero() { return {_mm256_setzero_ps(), _mm256_setzero_ps()}; }
KVERN_INLINE F32x16 Add(F32x16 a, F32x16 b) { return {_mm256_add_ps(a.lo, b.lo), _mm256_add_ps(a.hi, b.hi)}; }
KVERN_INLINE F32x16 Sub(F32x16 a, F32x16 b) { return {_mm256_sub_ps(a.lo, b.lo), _mm256_sub_ps(a.hi, b.hi)}; }
KVERN_INLINE F32x16 Mul(F32x16 a, F32x16 b) { return {_mm256_mul_ps(a.lo, b.lo), _mm256_mul_ps(a.hi, b.hi)}; }
KVERN_INLINE F32x16 Div(F32x16 a, F32x16 b) { return {_mm256_div_ps(a.lo, b.lo), _mm256_div_ps(a.hi, b.hi)}; }
KVERN_INLINE F32x16 Sqrt(F32x16 a) { return {_mm256_sqrt_ps(a.lo), _mm256_sqrt_ps(a.hi)}; }
KVERN_INLINE F32x16 Fma(F32x16 a, F32x16 b, F32x16 c) {
  return {_mm256_fmadd_ps(a.lo, b.lo, c.lo), _mm256_fmadd_ps(a.hi, b.hi, c.hi)};
}
KVERN_INLINE F32x16 Max(F32x16 a, F32x16 b) { return {_mm256_max_ps(a.lo, b.lo), _mm256_max_ps(a.hi, b.hi)}; }
KVERN_INLINE F32x16 Round(F32x16 a) {
  return {_mm256_round_ps(a.lo, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC),
          _mm256_round_ps(a.hi, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)};
}

// ---- Lane masks.
KVERN_INLINE Mask16 Greater(F32x16 a, F32x16 b) {
  return {_mm256_castps_si256(_mm256_cmp_ps(a.lo, b.lo, _CMP_GT_OQ)),
          _mm256_castps_si256(_mm256_cmp_ps(a.hi, b.hi, _CMP_GT_OQ))};
}
KVERN_INLINE Mask16 Equal(F32x16 a, F32x16 b) {
  return {_mm256_castps_si256(_mm256_cmp_ps(a.lo, b.lo, _CMP_EQ_OQ)),
          _mm256_castps_si256(_mm256_cmp_ps(a.hi, b.hi, _CMP_EQ_OQ))};
}
KVERN_INLINE Mask16 Greater(I32x16 a, I32x16 b) {
  return {_mm256_cmpgt_epi32(a.lo, b.lo), _mm256_cmpgt_epi32(a.hi, b.hi)};
}
KVERN_INLINE F32x16 Select(Mask16 mask, F32x16 a, F32x16 b) {
  return {_mm256_blendv_ps(b.lo, a.lo, _mm256_castsi256_ps(mask.lo)),
          _mm256_blendv_ps(b.hi, a.hi, _mm256_castsi256_ps(mask.hi))};
}
KVERN_INLINE I32x16 Select(Mask16 mask, I32x16 a, I32x16 b) {
  return {_mm256_blendv_epi8(b.lo, a.lo, mask.lo), _mm256_blendv_epi8(b.hi, a.hi, mask.hi)};
}
KVERN_INLINE uint32_t MaskBits(Mask16 mask) {
  return static_cast<uint32_t>(_mm256_movemask_ps(_mm256_castsi256_ps(mask.lo))) |
         static_cast<uint32_t>(_mm256_movemask_ps(_mm256_castsi256_ps(mask.hi))) << 8;
}

// ---- i32.
KVERN_INLINE I32x16 Set1I32(int32_t x) {
  const __m256i v = _mm256_set1_epi32(x);
  return {v, v};
}
KVERN_INLINE I32x16 Add(I32x16 a, I32x16 b) { return {_mm256_add_epi32(a.lo, b.lo), _mm256_add_epi32(a.hi, b.hi)}; }
KVERN_INLINE I32x16 Sub(I32x16 a, I32x16 b) { return {_mm256_sub_epi32(a.lo, b.lo), _mm256_sub_epi32(a.hi, b.hi)}; }
KVERN_INLINE I32x16 Max(I32x16 a, I32x16 b) { return {_mm256_max_epi32(a.lo, b.lo), _mm256_max_epi32(a.hi, b.hi)}; }
KVERN_INLINE I32x16 And(I32x16 a, I32x16 b) { return {_mm256_and_si256(a.lo, b.lo), _mm256_and_si256(a.hi, b.hi)}; }
KVERN_INLINE I32x16 Or(I32x16 a, I32x16 b) { return {_mm256_or_si256(a.lo, b.lo), _mm256_or_si256(a.hi, b.hi)}; }
KVERN_INLINE I32x16 Xor(I32x16 a, I32x16 b) { return {_mm256_xor_si256(a.lo, b.lo), _mm256_xor_si256(a.hi, b.hi)}; }
template <int kBits>
KVERN_INLINE I32x16 ShiftLeft(I32x16 a) {
  return {_mm256_slli_epi32(a.lo, kBits), _mm256_slli_epi32(a.hi, kBits)};
}
template <int kBits>
KVERN_INLINE I32x16 ShiftRight(I32x16 a) {
  return {_mm256_srli_epi32(a.lo, kBits), _mm256_srli_epi32(a.hi, kBits)};
}
template <int kBits>
KVERN_INLINE I32x16 ShiftRightSigned(I32x16 a) {
  return {_mm256_srai_epi32(a.lo, kBits), _mm256_srai_epi32(a.hi, kBits)};
}

// ---- Between the two.
KVERN_INLINE I32x16 BitsOf(F32x16 a) { return {_mm256_castps_si256(a.lo), _mm256_castps_si256(a.hi)}; }
KVERN_INLINE F32x16 FloatFromBits(I32x16 a) { return {_mm256_castsi256_ps(a.lo), _mm256_castsi256_ps(a.hi)}; }
KVERN_INLINE I32x16 ToI32(F32x16 a) { return {_mm256_cvtps_epi32(a.lo), _mm256_cvtps_epi32(a.hi)}; }
KVERN_INLINE F32x16 ToF32(I32x16 a) { return {_mm256_cvtepi32_ps(a.lo), _mm256_cvtepi32_ps(a.hi)}; }

// ---- Over all lanes.
KVERN_INLINE float HorizontalSum(F32x16 a) {
  const __m256 by8 = _mm256_add_ps(a.lo, a.hi);
  const __m128 by4 = _mm_add_ps(_mm256_castps256_ps128(by8), _mm256_extractf128_ps(by8, 1));
  const __m128 by2 = _mm_add_ps(by4, _mm_movehl_ps(by4, by4));
  return _mm_cvtss_f32(_mm_add_ss(by2, _mm_shuffle_ps(by2, by2, 1)));
}
KVERN_INLINE float HorizontalMax(F32x16 a) {
  const __m256 by8 = _mm256_max_ps(a.lo, a.hi);
  const __m128 by4 = _mm_max_ps(_mm256_castps256_ps128(by8), _mm256_extractf128_ps(by8, 1));
  const __m128 by2 = _mm_max_ps(by4, _mm_movehl_ps(by4, by4));
  return _mm_cvtss_f32(_mm_max_ss(by2, _mm_shuffle_ps(by2, by2, 1)));
}
KVERN_INLINE int32_t HorizontalSum(I32x16 a) {
  const __m256i by8 = _mm256_add_epi32(a.lo, a.hi);
  const __m128i by4 = _mm_add_epi32(_mm256_castsi256_si128(by8), _mm256_extracti128_si256(by8, 1));
  const __m128i by2 = _mm_add_epi32(by4, _mm_shuffle_epi32(by4, 0x4e));
  return _mm_cvtsi128_si32(_mm_add_epi32(by2, _mm_shuffle_epi32(by2, 0xb1)));
}
KVERN_INLINE int32_t HorizontalMax(I32x16 a) {
  const __m256i by8 = _mm256_max_epi32(a.lo, a.hi);
  const __m128i by4 = _mm_max_epi32(_mm256_castsi256_si128(by8), _mm256_extracti128_si256(by8, 1));
  const __m128i by2 = _mm_max_epi32(by4, _mm_shuffle_epi32(by4, 0x4e));
  return _mm_cvtsi128_si32(_mm_max_epi32(by2, _mm_shuffle_epi32(by2, 0xb1)));
}

template <int kDistance>
KVERN_INLINE __m256 ButterflyOfEight(__m256 a) {
  __m256 b;
  if constexpr (kDistance <= 2) {
    b = _mm256_permute_ps(a, kDistance == 1 ? 0xb1 : 0x4e);
  } else {
    b = _mm256_permute2f128_ps(a, a, 1);
  }
  constexpr int kUpper = kDistance == 1 ? 0xaa : kDistance == 2 ? 0xcc : 0xf0;
  return _mm256_blend_ps(_mm256_add_ps(a, b), _mm256_sub_ps(b, a), kUpper);
}
template <int kDistance>
KVERN_INLINE F32x16 Butterfly(F32x16 a) {
  if constexpr (kDistance == 8) {
    return {_mm256_add_ps(a.lo, a.hi), _mm256_sub_ps(a.lo, a.hi)};
  } else {
    return {ButterflyOfEight<kDistance>(a.lo), ButterflyOfEight<kDistance>(a.hi)};
  }
}

KVERN_INLINE void HorizontalSumOf4(const I32x16 (&a)[4], int32_t* out) {
  for (int i = 0; i < 4; ++i) out[i] = HorizontalSum(a[i]);
}
KVERN_INLINE void HorizontalMaxOf4(const I32x16 (&a)[4], int32_t* out) {
  for (int i = 0; i < 4; ++i) out[i] = HorizontalMax(a[i]);
}

// ---- Bytes, four to a lane.
struct Bytes64 {
  __m256i lo, hi;
};
KVERN_INLINE Bytes64 LoadBytes(const uint8_t* p) {
  return {_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)),
          _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p + 32))};
}
KVERN_INLINE void StoreBytes(uint8_t* p, Bytes64 x) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), x.lo);
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p + 32), x.hi);
}
KVERN_INLINE Bytes64 Or(Bytes64 a, Bytes64 b) { return {_mm256_or_si256(a.lo, b.lo), _mm256_or_si256(a.hi, b.hi)}; }
template <int kFrom, int kCount, int kTo>
KVERN_INLINE Bytes64 Field(Bytes64 a) {
  if constexpr (kFrom > kTo) a = {_mm256_srli_epi16(a.lo, kFrom - kTo), _mm256_srli_epi16(a.hi, kFrom - kTo)};
  if constexpr (kFrom < kTo) a = {_mm256_slli_epi16(a.lo, kTo - kFrom), _mm256_slli_epi16(a.hi, kTo - kFrom)};
  const __m256i mask = _mm256_set1_epi8(static_cast<char>(((1 << kCount) - 1) << kTo));
  return {_mm256_and_si256(a.lo, mask), _mm256_and_si256(a.hi, mask)};
}
template <int kIndex>
KVERN_INLINE I32x16 ByteOfLanes(Bytes64 a) {
  const __m256i mask = _mm256_set1_epi32(0xff);
  return {_mm256_and_si256(_mm256_srli_epi32(a.lo, 8 * kIndex), mask),
          _mm256_and_si256(_mm256_srli_epi32(a.hi, 8 * kIndex), mask)};
}
