// Dot products of stored codes and 15-bit factors by sdot (FEAT_DotProd): see kv_dot_generic.h. sdot multiplies signed
// bytes. A query is 128 * high + low with both parts signed; of weights 2^14 is taken first, so that their high part is
// signed too, and given back through the sum of the codes.
#pragma once

template <KvFactor kFactor, int kBits>
inline constexpr int kKvCodeOffset = kBits == 4 ? 8 : 0;

template <KvFactor kFactor, int kBits>
KVERN_INLINE void StoreFactors(uint8_t* p, I32x16 factors) {
  int8_t* const parts = reinterpret_cast<int8_t*>(p);
  if constexpr (kFactor == KvFactor::kQuery8) {
    StoreLowBytes(parts, factors);
  } else {
    if (kFactor == KvFactor::kWeight) factors = Sub(factors, Set1I32(1 << 14));
    const I32x16 high = ShiftRightSigned<7>(kFactor == KvFactor::kWeight ? factors : Add(factors, Set1I32(64)));
    StoreLowBytes(parts, high);
    StoreLowBytes(parts + 16, Sub(factors, ShiftLeft<7>(high)));
  }
}

template <KvFactor kFactor, int kBits>
struct KvFactors {
  int8x16_t high, low;
};
KVERN_INLINE int8x16_t BroadcastFour(const uint8_t* p) {
  int32_t four;
  std::memcpy(&four, p, 4);
  return vreinterpretq_s8_s32(vdupq_n_s32(four));
}
template <KvFactor kFactor, int kBits>
KVERN_INLINE KvFactors<kFactor, kBits> LoadFactors(const uint8_t* p, int index) {
  return {BroadcastFour(p + 4 * index), BroadcastFour(p + 16 + 4 * index)};
}

template <KvFactor kFactor, int kBits>
using KvCodes = Bytes64;
template <KvFactor kFactor, int kBits>
KVERN_INLINE KvCodes<kFactor, kBits> PrepareKvCodes(Bytes64 codes) {
  return codes;
}

template <KvFactor kFactor, int kBits>
struct KvSum {
  I32x16 high, low, codes;  // `codes`: of weights only.
};
template <KvFactor kFactor, int kBits>
KVERN_INLINE KvSum<kFactor, kBits> KvDotBegin() {
  return {Set1I32(0), Set1I32(0), Set1I32(0)};
}
KVERN_INLINE void KvDotBytes(I32x16& sum, const Bytes64& codes, int8x16_t factors) {
  sum.q0 = vdotq_s32(sum.q0, vreinterpretq_s8_u8(codes.q0), factors);
  sum.q1 = vdotq_s32(sum.q1, vreinterpretq_s8_u8(codes.q1), factors);
  sum.q2 = vdotq_s32(sum.q2, vreinterpretq_s8_u8(codes.q2), factors);
  sum.q3 = vdotq_s32(sum.q3, vreinterpretq_s8_u8(codes.q3), factors);
}
template <KvFactor kFactor, int kBits>
KVERN_INLINE void KvDotAdd(KvSum<kFactor, kBits>& sum, const Bytes64& codes, const KvFactors<kFactor, kBits>& factors) {
  KvDotBytes(sum.high, codes, factors.high);
  if constexpr (kFactor != KvFactor::kQuery8) KvDotBytes(sum.low, codes, factors.low);
  if constexpr (kFactor == KvFactor::kWeight) KvDotBytes(sum.codes, codes, vdupq_n_s8(1));
}
template <KvFactor kFactor, int kBits>
KVERN_INLINE void KvDotFlush(KvSum<kFactor, kBits>& /*sum*/) {}
template <KvFactor kFactor, int kBits>
KVERN_INLINE I32x16 KvDotEnd(const KvSum<kFactor, kBits>& sum) {
  if constexpr (kFactor == KvFactor::kQuery8) return sum.high;
  const I32x16 total = Add(ShiftLeft<7>(sum.high), sum.low);
  return kFactor == KvFactor::kWeight ? Add(total, ShiftLeft<14>(sum.codes)) : total;
}
