// Integer dot products by vpdpbusd on ymm (AVX-VNNI): see dot_generic.h.
#pragma once

template <int kBits>
constexpr int DotZeroCode(int zero_code) {
  return zero_code;
}
inline constexpr bool kDotWidthMatters = false;
template <int kBits>
inline constexpr int kDotStep = 1;

template <int kBits>
using DotCodes = Bytes64;
template <int kBits>
KVERN_INLINE DotCodes<kBits> PrepareCodes(Bytes64 codes) {
  return codes;
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
  const __m256i v = _mm256_set1_epi32(start);
  return {v, v};
}
template <int kBits>
KVERN_INLINE void DotAdd(DotSum<kBits>& sum, const DotCodes<kBits>& codes, const Quad& a) {
  sum.lo = _mm256_dpbusd_avx_epi32(sum.lo, codes.lo, a.v);
  sum.hi = _mm256_dpbusd_avx_epi32(sum.hi, codes.hi, a.v);
}
template <int kBits>
KVERN_INLINE void DotAddFromMemory(DotSum<kBits>& sum, const DotCodes<kBits>& codes, const int8_t* a) {
  DotAdd<kBits>(sum, codes, LoadQuad(a));
}
template <int kBits>
KVERN_INLINE I32x16 DotEnd(const DotSum<kBits>& sum, int32_t /*start*/) {
  return {sum.lo, sum.hi};
}
