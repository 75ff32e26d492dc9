// Dot products of stored codes and 15-bit factors by vpdpbusd on ymm (AVX-VNNI): see kv_dot_generic.h, and
// kv_dot_avx512_vnni.h for how factors and codes get their signs.
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
  __m256i high, low;
};
KVERN_INLINE __m256i BroadcastFour(const uint8_t* p) {
  int32_t four;
  std::memcpy(&four, p, 4);
  return _mm256_set1_epi32(four);
}
template <bool kIsQuery, int kBits>
KVERN_INLINE KvFactors<kIsQuery, kBits> LoadFactors(const uint8_t* p, int index) {
  return {BroadcastFour(p + 4 * index), BroadcastFour(p + 16 + 4 * index)};
}

template <bool kIsQuery, int kBits>
using KvCodes = Bytes64;
template <bool kIsQuery, int kBits>
KVERN_INLINE KvCodes<kIsQuery, kBits> PrepareKvCodes(Bytes64 codes) {
  if constexpr (kIsQuery && kBits == 8) {
    const __m256i top = _mm256_set1_epi8(-128);
    return {_mm256_xor_si256(codes.lo, top), _mm256_xor_si256(codes.hi, top)};
  }
  return codes;
}

template <bool kIsQuery, int kBits>
struct KvSum {
  I32x16 high, low;
};
template <bool kIsQuery, int kBits>
KVERN_INLINE KvSum<kIsQuery, kBits> KvDotBegin() {
  return {Set1I32(0), Set1I32(0)};
}
template <bool kIsQuery>
KVERN_INLINE __m256i KvDotBytes(__m256i sum, __m256i codes, __m256i factors) {
  return kIsQuery ? _mm256_dpbusd_avx_epi32(sum, codes, factors) : _mm256_dpbusd_avx_epi32(sum, factors, codes);
}
template <bool kIsQuery, int kBits>
KVERN_INLINE void KvDotAdd(KvSum<kIsQuery, kBits>& sum, const Bytes64& codes,
                           const KvFactors<kIsQuery, kBits>& factors) {
  sum.high.lo = KvDotBytes<kIsQuery>(sum.high.lo, codes.lo, factors.high);
  sum.high.hi = KvDotBytes<kIsQuery>(sum.high.hi, codes.hi, factors.high);
  sum.low.lo = KvDotBytes<kIsQuery>(sum.low.lo, codes.lo, factors.low);
  sum.low.hi = KvDotBytes<kIsQuery>(sum.low.hi, codes.hi, factors.low);
}
template <bool kIsQuery, int kBits>
KVERN_INLINE void KvDotFlush(KvSum<kIsQuery, kBits>& /*sum*/) {}
template <bool kIsQuery, int kBits>
KVERN_INLINE I32x16 KvDotEnd(const KvSum<kIsQuery, kBits>& sum) {
  return Add(ShiftLeft<7>(sum.high), sum.low);
}
