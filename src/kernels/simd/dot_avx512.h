// Integer dot products by vpmaddubsw on zmm: see dot_generic.h, and dot_avx2.h for how each width stays inside int16.
#pragma once

template <int kBits>
constexpr int DotZeroCode(int zero_code) {
  return kBits == 8 ? 0 : zero_code;
}
inline constexpr bool kDotWidthMatters = true;
template <int kBits>
inline constexpr int kDotStep = kBits == 5 || kBits == 6 ? 2 : 1;

#if defined(__clang__)
#define KVERN_KEEP_ORDER(sum)
#else
#define KVERN_KEEP_ORDER(sum) asm("" : "+v"(sum.v))
#endif

struct SignedCodes {
  __m512i magnitude;
  __mmask64 is_negative;
};
template <int kBits>
using DotCodes = std::conditional_t<kBits == 8, SignedCodes, Bytes64>;
template <int kBits>
KVERN_INLINE DotCodes<kBits> PrepareCodes(Bytes64 codes) {
  if constexpr (kBits == 8) {
    const __m512i weight = _mm512_xor_si512(codes.v, _mm512_set1_epi8(-128));
    return {_mm512_abs_epi8(weight), _mm512_movepi8_mask(weight)};
  } else {
    return codes;
  }
}

struct Quad {
  __m512i v;
};
KVERN_INLINE Quad LoadQuad(const int8_t* p) {
  int32_t four;
  std::memcpy(&four, p, 4);
  return {_mm512_set1_epi32(four)};
}

template <int kBits>
struct DotSum {
  __m512i v;
};
template <int kBits>
KVERN_INLINE DotSum<kBits> DotBegin(int32_t start) {
  return {kBits == 4 ? _mm512_setzero_si512() : _mm512_set1_epi32(start)};
}
KVERN_INLINE __m512i WidenPairs(__m512i int16) { return _mm512_madd_epi16(int16, _mm512_set1_epi16(1)); }
template <int kBits>
KVERN_INLINE void DotAdd(DotSum<kBits>& sum, const DotCodes<kBits>& codes, const Quad& a) {
  if constexpr (kBits == 4) {
    sum.v = _mm512_add_epi16(sum.v, _mm512_maddubs_epi16(codes.v, a.v));
  } else {
    static_assert(kBits == 8);
    const __m512i signed_a = _mm512_mask_sub_epi8(a.v, codes.is_negative, _mm512_setzero_si512(), a.v);
    sum.v = _mm512_add_epi32(sum.v, WidenPairs(_mm512_maddubs_epi16(codes.magnitude, signed_a)));
  }
  KVERN_KEEP_ORDER(sum);
}
template <int kBits>
KVERN_INLINE void DotAddFromMemory(DotSum<kBits>& sum, const DotCodes<kBits>& codes, const int8_t* a) {
  DotAdd<kBits>(sum, codes, LoadQuad(a));
}
template <int kBits>
KVERN_INLINE void DotAddPair(DotSum<kBits>& sum, const DotCodes<kBits>& codes0, const DotCodes<kBits>& codes1,
                             const Quad& a0, const Quad& a1) {
  sum.v = _mm512_add_epi32(
      sum.v, WidenPairs(_mm512_add_epi16(_mm512_maddubs_epi16(codes0.v, a0.v), _mm512_maddubs_epi16(codes1.v, a1.v))));
  KVERN_KEEP_ORDER(sum);
}
template <int kBits>
KVERN_INLINE I32x16 DotEnd(const DotSum<kBits>& sum, int32_t start) {
  if constexpr (kBits == 4) {
    return {_mm512_add_epi32(WidenPairs(sum.v), _mm512_set1_epi32(start))};
  } else {
    return {sum.v};
  }
}

#undef KVERN_KEEP_ORDER
