// Dot products of stored codes and 15-bit factors by vpdpbusd on zmm: see kv_dot_generic.h. vpdpbusd multiplies
// unsigned with signed bytes, and a factor of 15 bits is 128 * high + low. A query is signed, so its codes are made
// unsigned (+ 128 for int8); weights are unsigned (high 0 to 255, low 0 to 127) and meet signed codes.
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
  __m512i high, low;
};
KVERN_INLINE __m512i BroadcastFour(const uint8_t* p) {
  int32_t four;
  std::memcpy(&four, p, 4);
  return _mm512_set1_epi32(four);
}
template <KvFactor kFactor, int kBits>
KVERN_INLINE KvFactors<kFactor, kBits> LoadFactors(const uint8_t* p, int index) {
  const __m512i high = BroadcastFour(p + 4 * index);
  return {high, kFactor == KvFactor::kQuery8 ? high : BroadcastFour(p + 16 + 4 * index)};
}

template <KvFactor kFactor, int kBits>
using KvCodes = Bytes64;
template <KvFactor kFactor, int kBits>
KVERN_INLINE KvCodes<kFactor, kBits> PrepareKvCodes(Bytes64 codes) {
  if constexpr (kFactor != KvFactor::kWeight && kBits == 8) return {_mm512_xor_si512(codes.v, _mm512_set1_epi8(-128))};
  return codes;
}

template <KvFactor kFactor, int kBits>
struct KvSum {
  __m512i high, low;
};
template <KvFactor kFactor, int kBits>
KVERN_INLINE KvSum<kFactor, kBits> KvDotBegin() {
  return {_mm512_setzero_si512(), _mm512_setzero_si512()};
}
template <KvFactor kFactor, int kBits>
KVERN_INLINE void KvDotAdd(KvSum<kFactor, kBits>& sum, const Bytes64& codes, const KvFactors<kFactor, kBits>& factors) {
  if constexpr (kFactor == KvFactor::kQuery8) {
    sum.high = _mm512_dpbusd_epi32(sum.high, codes.v, factors.high);
  } else if constexpr (kFactor == KvFactor::kQuery15) {
    sum.high = _mm512_dpbusd_epi32(sum.high, codes.v, factors.high);
    sum.low = _mm512_dpbusd_epi32(sum.low, codes.v, factors.low);
  } else {
    sum.high = _mm512_dpbusd_epi32(sum.high, factors.high, codes.v);
    sum.low = _mm512_dpbusd_epi32(sum.low, factors.low, codes.v);
  }
}
template <KvFactor kFactor, int kBits>
KVERN_INLINE void KvDotFlush(KvSum<kFactor, kBits>& /*sum*/) {}
template <KvFactor kFactor, int kBits>
KVERN_INLINE I32x16 KvDotEnd(const KvSum<kFactor, kBits>& sum) {
  if constexpr (kFactor == KvFactor::kQuery8) return {sum.high};
  return {_mm512_add_epi32(_mm512_slli_epi32(sum.high, 7), sum.low)};
}
