// Dot products of stored codes and 15-bit factors without VNNI, on zmm: see kv_dot_generic.h, and kv_dot_avx2.h for the
// sums.
#pragma once

template <KvFactor kFactor, int kBits>
inline constexpr int kKvCodeOffset = kBits == 4 ? 8 : 0;

// g++ turns chains of integer vector additions into trees, and then runs out of registers.
#if defined(__clang__)
#define KVERN_KEEP_ORDER(sum)
#else
#define KVERN_KEEP_ORDER(sum) asm("" : "+v"(sum.v))
#endif

template <KvFactor kFactor, int kBits>
KVERN_INLINE void StoreFactors(uint8_t* p, I32x16 factors) {
  if constexpr (kBits == 8) {  // Each four in the order 0 2 1 3, as codes come out when they are widened.
    const __m256i narrow = _mm512_cvtepi32_epi16(factors.v);
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
  __m512i a, b;
};
KVERN_INLINE __m512i BroadcastFour(const uint8_t* p) {
  int32_t four;
  std::memcpy(&four, p, 4);
  return _mm512_set1_epi32(four);
}
template <KvFactor kFactor, int kBits>
KVERN_INLINE KvFactors<kFactor, kBits> LoadFactors(const uint8_t* p, int index) {
  if constexpr (kBits == 8) return {BroadcastFour(p + 8 * index), BroadcastFour(p + 8 * index + 4)};
  const __m512i high = BroadcastFour(p + 4 * index);
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
    return {{_mm512_srai_epi16(_mm512_slli_epi16(codes.v, 8), 8)}, {_mm512_srai_epi16(codes.v, 8)}};
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
KVERN_INLINE __m512i KvDotBytes(__m512i codes, __m512i factors) {
  return kFactor == KvFactor::kWeight ? _mm512_maddubs_epi16(factors, codes) : _mm512_maddubs_epi16(codes, factors);
}
template <KvFactor kFactor, int kBits>
KVERN_INLINE void KvDotAdd(KvSum<kFactor, kBits>& s, const KvCodes<kFactor, kBits>& codes,
                           const KvFactors<kFactor, kBits>& factors) {
  if constexpr (kBits == 8) {
    s.sum.v = _mm512_add_epi32(s.sum.v, _mm512_add_epi32(_mm512_madd_epi16(codes.even.v, factors.a),
                                                         _mm512_madd_epi16(codes.odd.v, factors.b)));
    KVERN_KEEP_ORDER(s.sum);
  } else {
    s.high.v = _mm512_add_epi16(s.high.v, KvDotBytes<kFactor>(codes.v, factors.a));
    KVERN_KEEP_ORDER(s.high);
    if constexpr (kFactor != KvFactor::kQuery8) {
      s.low.v = _mm512_add_epi16(s.low.v, KvDotBytes<kFactor>(codes.v, factors.b));
      KVERN_KEEP_ORDER(s.low);
    }
  }
}
template <KvFactor kFactor, int kBits>
KVERN_INLINE void KvDotFlush(KvSum<kFactor, kBits>& s) {
  if constexpr (kBits == 4) {
    const __m512i ones = _mm512_set1_epi16(1);
    const __m512i high = _mm512_madd_epi16(s.high.v, ones);
    if constexpr (kFactor == KvFactor::kQuery8) {
      s.sum.v = _mm512_add_epi32(s.sum.v, high);
    } else {
      s.sum.v = _mm512_add_epi32(s.sum.v, _mm512_slli_epi32(high, 7));
      s.sum.v = _mm512_add_epi32(s.sum.v, _mm512_madd_epi16(s.low.v, ones));
    }
    s.high = s.low = Set1I32(0);
  }
}
template <KvFactor kFactor, int kBits>
KVERN_INLINE I32x16 KvDotEnd(const KvSum<kFactor, kBits>& s) {
  return s.sum;
}

#undef KVERN_KEEP_ORDER
