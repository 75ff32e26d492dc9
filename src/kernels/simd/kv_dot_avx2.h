// Dot products of stored codes and 15-bit factors without VNNI, on ymm: see kv_dot_generic.h.
//   8 bits: codes are widened to int16, factors are int16, vpmaddwd.
//   4 bits: vpmaddubsw of unsigned with signed bytes, a factor as 128 * high + low. Its int16 sums are flushed before
//   they overflow: 16 products of a query, 16 * 15 * 127 = 30480; 8 of weights, 8 * 15 * 255 = 30600.
#pragma once

template <KvFactor kFactor, int kBits>
inline constexpr int kKvCodeOffset = kBits == 4 ? 8 : 0;

// g++ turns chains of integer vector additions into trees, and then runs out of registers.
#if defined(__clang__)
#define KVERN_KEEP_ORDER(sum)
#else
#define KVERN_KEEP_ORDER(sum) asm("" : "+x"(sum.lo), "+x"(sum.hi))
#endif

template <KvFactor kFactor, int kBits>
KVERN_INLINE void StoreFactors(uint8_t* p, I32x16 factors) {
  if constexpr (kBits == 8) {  // Each four in the order 0 2 1 3, as codes come out when they are widened.
    const __m256i narrow = _mm256_permute4x64_epi64(_mm256_packs_epi32(factors.lo, factors.hi), 0xd8);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(p),
                        _mm256_shufflehi_epi16(_mm256_shufflelo_epi16(narrow, 0xd8), 0xd8));
  } else {
    constexpr bool kIsShort = kFactor == KvFactor::kQuery8;
    const I32x16 high =
        kIsShort ? factors : ShiftRightSigned<7>(kFactor == KvFactor::kWeight ? factors : Add(factors, Set1I32(64)));
    StoreLowBytes(reinterpret_cast<int8_t*>(p), high);
    if (!kIsShort) StoreLowBytes(reinterpret_cast<int8_t*>(p + 16), Sub(factors, ShiftLeft<7>(high)));
  }
}

// 8 bits: factors 0 and 2, 1 and 3. 4 bits: the high and the low parts of all four.
template <KvFactor kFactor, int kBits>
struct KvFactors {
  __m256i a, b;
};
KVERN_INLINE __m256i BroadcastFour(const uint8_t* p) {
  int32_t four;
  std::memcpy(&four, p, 4);
  return _mm256_set1_epi32(four);
}
template <KvFactor kFactor, int kBits>
KVERN_INLINE KvFactors<kFactor, kBits> LoadFactors(const uint8_t* p, int index) {
  if constexpr (kBits == 8) return {BroadcastFour(p + 8 * index), BroadcastFour(p + 8 * index + 4)};
  const __m256i high = BroadcastFour(p + 4 * index);
  return {high, kFactor == KvFactor::kQuery8 ? high : BroadcastFour(p + 16 + 4 * index)};
}

// Codes 0 and 2, 1 and 3 of each lane as int16.
struct WideCodes {
  Bytes64 even, odd;
};
template <KvFactor kFactor, int kBits>
using KvCodes = std::conditional_t<kBits == 8, WideCodes, Bytes64>;
template <KvFactor kFactor, int kBits>
KVERN_INLINE KvCodes<kFactor, kBits> PrepareKvCodes(Bytes64 codes) {
  if constexpr (kBits == 8) {
    return {
        {_mm256_srai_epi16(_mm256_slli_epi16(codes.lo, 8), 8), _mm256_srai_epi16(_mm256_slli_epi16(codes.hi, 8), 8)},
        {_mm256_srai_epi16(codes.lo, 8), _mm256_srai_epi16(codes.hi, 8)}};
  } else {
    return codes;
  }
}

// `high` and `low` are int16 and used for 4 bits only.
template <KvFactor kFactor, int kBits>
struct KvSum {
  I32x16 sum, high, low;
};
template <KvFactor kFactor, int kBits>
KVERN_INLINE KvSum<kFactor, kBits> KvDotBegin() {
  return {Set1I32(0), Set1I32(0), Set1I32(0)};
}
template <KvFactor kFactor>
KVERN_INLINE __m256i KvDotBytes(__m256i codes, __m256i factors) {
  return kFactor == KvFactor::kWeight ? _mm256_maddubs_epi16(factors, codes) : _mm256_maddubs_epi16(codes, factors);
}
template <KvFactor kFactor, int kBits>
KVERN_INLINE void KvDotAdd(KvSum<kFactor, kBits>& s, const KvCodes<kFactor, kBits>& codes,
                           const KvFactors<kFactor, kBits>& factors) {
  if constexpr (kBits == 8) {
    s.sum.lo = _mm256_add_epi32(s.sum.lo, _mm256_add_epi32(_mm256_madd_epi16(codes.even.lo, factors.a),
                                                           _mm256_madd_epi16(codes.odd.lo, factors.b)));
    s.sum.hi = _mm256_add_epi32(s.sum.hi, _mm256_add_epi32(_mm256_madd_epi16(codes.even.hi, factors.a),
                                                           _mm256_madd_epi16(codes.odd.hi, factors.b)));
    KVERN_KEEP_ORDER(s.sum);
  } else {
    s.high.lo = _mm256_add_epi16(s.high.lo, KvDotBytes<kFactor>(codes.lo, factors.a));
    s.high.hi = _mm256_add_epi16(s.high.hi, KvDotBytes<kFactor>(codes.hi, factors.a));
    KVERN_KEEP_ORDER(s.high);
    if constexpr (kFactor != KvFactor::kQuery8) {
      s.low.lo = _mm256_add_epi16(s.low.lo, KvDotBytes<kFactor>(codes.lo, factors.b));
      s.low.hi = _mm256_add_epi16(s.low.hi, KvDotBytes<kFactor>(codes.hi, factors.b));
      KVERN_KEEP_ORDER(s.low);
    }
  }
}
template <KvFactor kFactor>
KVERN_INLINE __m256i WidenFactorParts(__m256i high, __m256i low) {
  const __m256i ones = _mm256_set1_epi16(1);
  if constexpr (kFactor == KvFactor::kQuery8) return _mm256_madd_epi16(high, ones);
  return _mm256_add_epi32(_mm256_slli_epi32(_mm256_madd_epi16(high, ones), 7), _mm256_madd_epi16(low, ones));
}
template <KvFactor kFactor, int kBits>
KVERN_INLINE void KvDotFlush(KvSum<kFactor, kBits>& s) {
  if constexpr (kBits == 4) {
    s.sum.lo = _mm256_add_epi32(s.sum.lo, WidenFactorParts<kFactor>(s.high.lo, s.low.lo));
    s.sum.hi = _mm256_add_epi32(s.sum.hi, WidenFactorParts<kFactor>(s.high.hi, s.low.hi));
    s.high = s.low = Set1I32(0);
  }
}
template <KvFactor kFactor, int kBits>
KVERN_INLINE I32x16 KvDotEnd(const KvSum<kFactor, kBits>& s) {
  return s.sum;
}

#undef KVERN_KEEP_ORDER
