// Integer dot products by vpdpbusd on zmm: see dot_generic.h.
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
  return {_mm512_set1_epi32(start)};
}
template <int kBits>
KVERN_INLINE void DotAdd(DotSum<kBits>& sum, const DotCodes<kBits>& codes, const Quad& a) {
  sum.v = _mm512_dpbusd_epi32(sum.v, codes.v, a.v);
}
template <int kBits>
KVERN_INLINE void DotAddFromMemory(DotSum<kBits>& sum, const DotCodes<kBits>& codes, const int8_t* a) {
#if defined(__clang__)
  DotAdd<kBits>(sum, codes, LoadQuad(a));
#else
  // One instruction with the broadcast in its memory operand; g++ 12 makes two of it.
  struct Four {
    int8_t bytes[4];
  };
  asm("vpdpbusd %2%{1to16%}, %1, %0" : "+v"(sum.v) : "v"(codes.v), "m"(*reinterpret_cast<const Four*>(a)));
#endif
}
template <int kBits>
KVERN_INLINE I32x16 DotEnd(const DotSum<kBits>& sum, int32_t /*start*/) {
  return {sum.v};
}
