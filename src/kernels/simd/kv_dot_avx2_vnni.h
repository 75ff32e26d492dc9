// Dot products of stored codes and 15-bit factors by vpdpbusd on ymm (AVX-VNNI): see kv_dot_generic.h, and
// kv_dot_avx512_vnni.h for how factors and codes get their signs.
#pragma once

template <KvFactor kFactor, int kBits>
inline constexpr int kKvCodeOffset = kBits == 4                     ? 8
                                     : kFactor == KvFactor::kWeight ? 0
                                                                    : 128;

template <KvFactor kFactor, int kBits>
KVERN_INLINE void StoreFactors(uint8_t* p, I32x16 factors) {
  int8_t* const high = reinterpret_cast<int8_t*>(p);
  if constexpr (kFactor == KvFactor::kQuery8) {
    StoreLowBytes(high, factors);
  } else if constexpr (kFactor == KvFactor::kQuery15) {
    const I32x16 upper = ShiftRightSigned<7>(Add(factors, Set1I32(64)));
    StoreLowBytes(high, upper);
    StoreLowBytes(high + 16, Sub(factors, ShiftLeft<7>(upper)));
  } else {
    StoreLowBytes(high, ShiftRight<7>(factors));
    StoreLowBytes(high + 16, And(factors, Set1I32(127)));
  }
}

template <KvFactor kFactor, int kBits>
struct KvFactors {
  __m256i high, low;
};
KVERN_INLINE __m256i BroadcastFour(const uint8_t* p) {
  int32_t four;
  std::memcpy(&four, p, 4);
  return _mm256_set1_epi32(four);
}
template <KvFactor kFactor, int kBits>
KVERN_INLINE KvFactors<kFactor, kBits> LoadFactors(const uint8_t* p, int index) {
  const __m256i high = BroadcastFour(p + 4 * index);
  return {high, kFactor == KvFactor::kQuery8 ? high : BroadcastFour(p + 16 + 4 * index)};
}

template <KvFactor kFactor, int kBits>
using KvCodes = Bytes64;
template <KvFactor kFactor, int kBits>
KVERN_INLINE KvCodes<kFactor, kBits> PrepareKvCodes(Bytes64 codes) {
  if constexpr (kFactor != KvFactor::kWeight && kBits == 8) {
    const __m256i top = _mm256_set1_epi8(-128);
    return {_mm256_xor_si256(codes.lo, top), _mm256_xor_si256(codes.hi, top)};
  }
  return codes;
}

template <KvFactor kFactor, int kBits>
struct KvSum {
  I32x16 high, low;
};
template <KvFactor kFactor, int kBits>
KVERN_INLINE KvSum<kFactor, kBits> KvDotBegin() {
  return {Set1I32(0), Set1I32(0)};
}
template <KvFactor kFactor>
KVERN_INLINE __m256i KvDotBytes(__m256i sum, __m256i codes, __m256i factors) {
  return kFactor == KvFactor::kWeight ? _mm256_dpbusd_avx_epi32(sum, factors, codes)
                                      : _mm256_dpbusd_avx_epi32(sum, codes, factors);
}
template <KvFactor kFactor, int kBits>
KVERN_INLINE void KvDotAdd(KvSum<kFactor, kBits>& sum, const Bytes64& codes, const KvFactors<kFactor, kBits>& factors) {
  sum.high.lo = KvDotBytes<kFactor>(sum.high.lo, codes.lo, factors.high);
  sum.high.hi = KvDotBytes<kFactor>(sum.high.hi, codes.hi, factors.high);
  if constexpr (kFactor != KvFactor::kQuery8) {
    sum.low.lo = KvDotBytes<kFactor>(sum.low.lo, codes.lo, factors.low);
    sum.low.hi = KvDotBytes<kFactor>(sum.low.hi, codes.hi, factors.low);
  }
}
template <KvFactor kFactor, int kBits>
KVERN_INLINE void KvDotFlush(KvSum<kFactor, kBits>& /*sum*/) {}
template <KvFactor kFactor, int kBits>
KVERN_INLINE I32x16 KvDotEnd(const KvSum<kFactor, kBits>& sum) {
  return kFactor == KvFactor::kQuery8 ? sum.high : Add(ShiftLeft<7>(sum.high), sum.low);
}
