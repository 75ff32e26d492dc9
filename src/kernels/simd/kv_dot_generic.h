// Integer dot products of stored codes and factors, sixteen at once: the reference of the kv_dot_*.h headers.
//
// Codes are those of K or V: int8, or the low or high halves of bytes, 0 to 15. Factors are a query or the weights of
// slots (kv_factors.h). Bytes64 holds four codes to a lane; they meet the same four factors in every lane. Sums are
// int32, wrap, and are rounded nowhere, so targets may add in any order and split factors as they like.
#pragma once

// What stands in a sum beside the product: this much for each unit of the factors' sum.
template <KvFactor kFactor, int kBits>
inline constexpr int kKvCodeOffset = kBits == 4 ? 8 : 0;

// Sixteen factors as the products read them: 32 bytes.
template <KvFactor kFactor, int kBits>
KVERN_INLINE void StoreFactors(uint8_t* p, I32x16 factors) {
  int16_t narrow[16];
  for (int i = 0; i < 16; ++i) narrow[i] = static_cast<int16_t>(factors.v[i]);
  std::memcpy(p, narrow, sizeof(narrow));
}

// Factors 4 * index to 4 * index + 3 of those.
template <KvFactor kFactor, int kBits>
struct KvFactors {
  int16_t v[4];
};
template <KvFactor kFactor, int kBits>
KVERN_INLINE KvFactors<kFactor, kBits> LoadFactors(const uint8_t* p, int index) {
  KvFactors<kFactor, kBits> factors;
  std::memcpy(factors.v, p + 8 * index, 8);
  return factors;
}

template <KvFactor kFactor, int kBits>
using KvCodes = Bytes64;
template <KvFactor kFactor, int kBits>
KVERN_INLINE KvCodes<kFactor, kBits> PrepareKvCodes(Bytes64 codes) {
  return codes;
}

template <KvFactor kFactor, int kBits>
struct KvSum {
  int32_t v[16];
};
template <KvFactor kFactor, int kBits>
KVERN_INLINE KvSum<kFactor, kBits> KvDotBegin() {
  return {};
}
template <KvFactor kFactor, int kBits>
KVERN_INLINE void KvDotAdd(KvSum<kFactor, kBits>& sum, const Bytes64& codes, const KvFactors<kFactor, kBits>& factors) {
  for (int i = 0; i < 16; ++i) {
    for (int k = 0; k < 4; ++k) {
      const uint8_t byte = codes.v[4 * i + k];
      sum.v[i] += (kBits == 8 ? static_cast<int8_t>(byte) : static_cast<int>(byte)) * factors.v[k];
    }
  }
}
// To be called after each 32 codes of a lane met a query, and after each 16 that met weights.
template <KvFactor kFactor, int kBits>
KVERN_INLINE void KvDotFlush(KvSum<kFactor, kBits>& /*sum*/) {}
template <KvFactor kFactor, int kBits>
KVERN_INLINE I32x16 KvDotEnd(const KvSum<kFactor, kBits>& sum) {
  I32x16 r;
  for (int i = 0; i < 16; ++i) r.v[i] = sum.v[i];
  return r;
}
