// Integer dot products of weight codes and int8 activations, sixteen at once: the reference of the dot_*.h headers.
//
// Codes have kBits bits and are unsigned, as packed_layout.h stores them. A k-group is four consecutive inputs; Bytes64
// holds its codes, four to a lane, and a Quad the four activations of one row, the same for every lane. A sum starts at
// `start`, is fed the k-groups of 32 inputs at most, and ends as an integer; nothing in it is rounded, so targets may
// add in any order. With start = 0x4B400000 + c the result, read as a float, is 1.5 * 2^23 + c + dot
// (docs/numerics.md).
#pragma once

// What a sum must be started with: kMagicBits - DotZeroCode<kBits>(zero_code) * (sum of the activations), where
// zero_code is the code that stands for the weight 0.
template <int kBits>
constexpr int DotZeroCode(int zero_code) {
  return zero_code;
}
// Whether sums differ by the width of their codes. Where they do not, those for 8 bits serve all: less to compile.
inline constexpr bool kDotWidthMatters = false;
// k-groups that one DotAdd takes.
template <int kBits>
inline constexpr int kDotStep = 1;

template <int kBits>
using DotCodes = Bytes64;
template <int kBits>
KVERN_INLINE DotCodes<kBits> PrepareCodes(Bytes64 codes) {
  return codes;
}

struct Quad {
  int8_t v[4];
};
KVERN_INLINE Quad LoadQuad(const int8_t* p) { return {{p[0], p[1], p[2], p[3]}}; }

template <int kBits>
struct DotSum {
  int32_t v[16];
};
template <int kBits>
KVERN_INLINE DotSum<kBits> DotBegin(int32_t start) {
  DotSum<kBits> sum;
  for (int i = 0; i < 16; ++i) sum.v[i] = start;
  return sum;
}
template <int kBits>
KVERN_INLINE void DotAdd(DotSum<kBits>& sum, const DotCodes<kBits>& codes, const Quad& a) {
  for (int i = 0; i < 16; ++i) {
    for (int k = 0; k < 4; ++k) sum.v[i] += codes.v[4 * i + k] * a.v[k];
  }
}
// The same with the activations still in memory.
template <int kBits>
KVERN_INLINE void DotAddFromMemory(DotSum<kBits>& sum, const DotCodes<kBits>& codes, const int8_t* a) {
  DotAdd<kBits>(sum, codes, LoadQuad(a));
}
// `start` as it was given to DotBegin.
template <int kBits>
KVERN_INLINE I32x16 DotEnd(const DotSum<kBits>& sum, int32_t /*start*/) {
  I32x16 r;
  for (int i = 0; i < 16; ++i) r.v[i] = sum.v[i];
  return r;
}
