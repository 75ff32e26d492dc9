// Integer dot products by vpmaddubsw on ymm: see dot_generic.h. vpmaddubsw adds two products of an unsigned and a
// signed byte and saturates to int16, so each width has its own way to stay below 32768:
//   4 bits: int16 sums over all of the 32 inputs, at most 16 * 15 * 127 = 30480, widened at the end.
//   5, 6 bits: two k-groups added in int16, at most 4 * 63 * 127 = 32004, then widened.
//   8 bits: codes as signed weights; |w| * (sign of w applied to a), at most 2 * 128 * 127 = 32512, then widened.
#pragma once

template <int kBits>
constexpr int DotZeroCode(int zero_code) {
  return kBits == 8 ? 0 : zero_code;
}
inline constexpr bool kDotWidthMatters = true;
template <int kBits>
inline constexpr int kDotStep = kBits == 5 || kBits == 6 ? 2 : 1;

// g++ turns chains of integer vector additions into trees, and then runs out of registers.
#if defined(__clang__)
#define KVERN_KEEP_ORDER(sum)
#else
#define KVERN_KEEP_ORDER(sum) asm("" : "+x"(sum.lo), "+x"(sum.hi))
#endif

struct SignedCodes {
  Bytes64 magnitude, weight;
};
template <int kBits>
using DotCodes = std::conditional_t<kBits == 8, SignedCodes, Bytes64>;
template <int kBits>
KVERN_INLINE DotCodes<kBits> PrepareCodes(Bytes64 codes) {
  if constexpr (kBits == 8) {
    const __m256i sign_bits = _mm256_set1_epi8(-128);
    const Bytes64 weight = {_mm256_xor_si256(codes.lo, sign_bits), _mm256_xor_si256(codes.hi, sign_bits)};
    return {{_mm256_abs_epi8(weight.lo), _mm256_abs_epi8(weight.hi)}, weight};
  } else {
    return codes;
  }
}

struct Quad {
  __m256i v;
};
KVERN_INLINE Quad LoadQuad(const int8_t* p) {
  int32_t four;
  std::memcpy(&four, p, 4);
  return {_mm256_set1_epi32(four)};
}

template <int kBits>
struct DotSum {
  __m256i lo, hi;
};
template <int kBits>
KVERN_INLINE DotSum<kBits> DotBegin(int32_t start) {
  const __m256i v = kBits == 4 ? _mm256_setzero_si256() : _mm256_set1_epi32(start);
  return {v, v};
}
KVERN_INLINE __m256i WidenPairs(__m256i int16) { return _mm256_madd_epi16(int16, _mm256_set1_epi16(1)); }
template <int kBits>
KVERN_INLINE void DotAdd(DotSum<kBits>& sum, const DotCodes<kBits>& codes, const Quad& a) {
  if constexpr (kBits == 4) {
    sum.lo = _mm256_add_epi16(sum.lo, _mm256_maddubs_epi16(codes.lo, a.v));
    sum.hi = _mm256_add_epi16(sum.hi, _mm256_maddubs_epi16(codes.hi, a.v));
  } else {
    static_assert(kBits == 8);
    const __m256i a_lo = _mm256_sign_epi8(a.v, codes.weight.lo);
    const __m256i a_hi = _mm256_sign_epi8(a.v, codes.weight.hi);
    sum.lo = _mm256_add_epi32(sum.lo, WidenPairs(_mm256_maddubs_epi16(codes.magnitude.lo, a_lo)));
    sum.hi = _mm256_add_epi32(sum.hi, WidenPairs(_mm256_maddubs_epi16(codes.magnitude.hi, a_hi)));
  }
  KVERN_KEEP_ORDER(sum);
}
template <int kBits>
KVERN_INLINE void DotAddFromMemory(DotSum<kBits>& sum, const DotCodes<kBits>& codes, const int8_t* a) {
  DotAdd<kBits>(sum, codes, LoadQuad(a));
}
// Two k-groups at once, where kDotStep is 2.
template <int kBits>
KVERN_INLINE void DotAddPair(DotSum<kBits>& sum, const DotCodes<kBits>& codes0, const DotCodes<kBits>& codes1,
                             const Quad& a0, const Quad& a1) {
  sum.lo = _mm256_add_epi32(sum.lo, WidenPairs(_mm256_add_epi16(_mm256_maddubs_epi16(codes0.lo, a0.v),
                                                                _mm256_maddubs_epi16(codes1.lo, a1.v))));
  sum.hi = _mm256_add_epi32(sum.hi, WidenPairs(_mm256_add_epi16(_mm256_maddubs_epi16(codes0.hi, a0.v),
                                                                _mm256_maddubs_epi16(codes1.hi, a1.v))));
  KVERN_KEEP_ORDER(sum);
}
template <int kBits>
KVERN_INLINE I32x16 DotEnd(const DotSum<kBits>& sum, int32_t start) {
  if constexpr (kBits == 4) {
    const __m256i first = _mm256_set1_epi32(start);
    return {_mm256_add_epi32(WidenPairs(sum.lo), first), _mm256_add_epi32(WidenPairs(sum.hi), first)};
  } else {
    return {sum.lo, sum.hi};
  }
}

#undef KVERN_KEEP_ORDER
