// Integer dot products by sdot (FEAT_DotProd): see dot_generic.h. sdot multiplies signed bytes: codes of up to 6 bits
// are the same either way; those of 8 bits become weights, by the bit that adds 128.
#pragma once

template <int kBits>
constexpr int DotZeroCode(int zero_code) {
  return kBits == 8 ? 0 : zero_code;
}
inline constexpr bool kDotWidthMatters = true;
template <int kBits>
inline constexpr int kDotStep = 1;

struct SignedBytes64 {
  int8x16_t q0, q1, q2, q3;
};
template <int kBits>
using DotCodes = SignedBytes64;
template <int kBits>
KVERN_INLINE int8x16_t PrepareSixteen(uint8x16_t codes) {
  return vreinterpretq_s8_u8(kBits == 8 ? veorq_u8(codes, vdupq_n_u8(0x80)) : codes);
}
template <int kBits>
KVERN_INLINE DotCodes<kBits> PrepareCodes(Bytes64 codes) {
  return {PrepareSixteen<kBits>(codes.q0), PrepareSixteen<kBits>(codes.q1), PrepareSixteen<kBits>(codes.q2),
          PrepareSixteen<kBits>(codes.q3)};
}

struct Quad {
  int8x16_t v;
};
KVERN_INLINE Quad LoadQuad(const int8_t* p) {
  int32_t four;
  std::memcpy(&four, p, 4);
  return {vreinterpretq_s8_s32(vdupq_n_s32(four))};
}

template <int kBits>
struct DotSum {
  int32x4_t q0, q1, q2, q3;
};
template <int kBits>
KVERN_INLINE DotSum<kBits> DotBegin(int32_t start) {
  const int32x4_t v = vdupq_n_s32(start);
  return {v, v, v, v};
}
template <int kBits>
KVERN_INLINE void DotAdd(DotSum<kBits>& sum, const DotCodes<kBits>& codes, const Quad& a) {
  sum.q0 = vdotq_s32(sum.q0, codes.q0, a.v);
  sum.q1 = vdotq_s32(sum.q1, codes.q1, a.v);
  sum.q2 = vdotq_s32(sum.q2, codes.q2, a.v);
  sum.q3 = vdotq_s32(sum.q3, codes.q3, a.v);
}
template <int kBits>
KVERN_INLINE void DotAddFromMemory(DotSum<kBits>& sum, const DotCodes<kBits>& codes, const int8_t* a) {
  DotAdd<kBits>(sum, codes, LoadQuad(a));
}
template <int kBits>
KVERN_INLINE I32x16 DotEnd(const DotSum<kBits>& sum, int32_t /*start*/) {
  return {sum.q0, sum.q1, sum.q2, sum.q3};
}
