// Dot products of stored codes and 15-bit factors by vpdpbusd on zmm: see kv_dot_generic.h. vpdpbusd multiplies
// unsigned with signed bytes, and a factor is 128 * high + low. A query is signed, so its codes are made unsigned (+
// 128 for int8); weights are unsigned (high 0 to 255, low 0 to 127) and meet signed codes.
#pragma once

template <bool kIsQuery, int kBits>
inline constexpr int kKvCodeOffset = kBits == 4 ? 8
                                     : kIsQuery ? 128
                                                : 0;

template <bool kIsQuery, int kBits>
KVERN_INLINE void StoreFactors(uint8_t* p, I32x16 factors) {
  const I32x16 high = ShiftRightSigned<7>(kIsQuery ? Add(factors, Set1I32(64)) : factors);
  StoreLowBytes(reinterpret_cast<int8_t*>(p), high);
  StoreLowBytes(reinterpret_cast<int8_t*>(p + 16), Sub(factors, ShiftLeft<7>(high)));
}

template <bool kIsQuery, int kBits>
struct KvFactors {
  __m512i high, low;
};
KVERN_INLINE __m512i BroadcastFour(const uint8_t* p) {
  int32_t four;
  std::memcpy(&four, p, 4);
  return _mm512_set1_epi32(four);
}
template <bool kIsQuery, int kBits>
KVERN_INLINE KvFactors<kIsQuery, kBits> LoadFactors(const uint8_t* p, int index) {
  return {BroadcastFour(p + 4 * index), BroadcastFour(p + 16 + 4 * index)};
}

template <bool kIsQuery, int kBits>
using KvCodes = Bytes64;
template <bool kIsQuery, int kBits>
KVERN_INLINE KvCodes<kIsQuery, kBits> PrepareKvCodes(Bytes64 codes) {
  if constexpr (kIsQuery && kBits == 8) return {_mm512_xor_si512(codes.v, _mm512_set1_epi8(-128))};
  return codes;
}

template <bool kIsQuery, int kBits>
struct KvSum {
  __m512i high, low;
};
template <bool kIsQuery, int kBits>
KVERN_INLINE KvSum<kIsQuery, kBits> KvDotBegin() {
  return {_mm512_setzero_si512(), _mm512_setzero_si512()};
}
template <bool kIsQuery, int kBits>
KVERN_INLINE void KvDotAdd(KvSum<kIsQuery, kBits>& sum, const Bytes64& codes,
                           const KvFactors<kIsQuery, kBits>& factors) {
  if constexpr (kIsQuery) {
    sum.high = _mm512_dpbusd_epi32(sum.high, codes.v, factors.high);
    sum.low = _mm512_dpbusd_epi32(sum.low, codes.v, factors.low);
  } else {
    sum.high = _mm512_dpbusd_epi32(sum.high, factors.high, codes.v);
    sum.low = _mm512_dpbusd_epi32(sum.low, factors.low, codes.v);
  }
}
template <bool kIsQuery, int kBits>
KVERN_INLINE void KvDotFlush(KvSum<kIsQuery, kBits>& /*sum*/) {}
template <bool kIsQuery, int kBits>
KVERN_INLINE I32x16 KvDotEnd(const KvSum<kIsQuery, kBits>& sum) {
  return {_mm512_add_epi32(_mm512_slli_epi32(sum.high, 7), sum.low)};
}
