// The codecs of K and V, and how attention works on each: one line per codec. Included inside a target's namespace.
#pragma once

#include "kernels/inl/attention_integers.inl.h"
#include "kernels/inl/attention_rows.inl.h"
#include "kernels/inl/codec_bf16.inl.h"
#include "kernels/inl/codec_f16.inl.h"
#include "kernels/inl/codec_f32.inl.h"
#include "kernels/inl/codec_fp8.inl.h"
#include "kernels/inl/codec_int4.inl.h"
#include "kernels/inl/codec_int8.inl.h"

// How attention works on the keys of one codec. `scales` are those of K of each granule.
struct KeyFunctions {
  // Makes of a query, in place, what scores read of it; null: it is read as it is.
  void (*prepare_query)(float* q, uint32_t dim);
  // Scores of num_rows <= kMaxTileRows rows against stored granules.
  void (*score)(uint32_t num_rows, const float* q, uint32_t dim, const uint8_t* const* k, const uint8_t* const* scales,
                uint32_t num_granules, float* scores, const uint8_t* const* fetch);
  // A granule's codes as f32, for many rows; null: they read what is stored too.
  void (*decode)(const uint8_t* granule, uint32_t dim, float* to);
  // What scores of decoded codes still lack; null: nothing.
  void (*scale_scores)(uint32_t num_rows, const uint8_t* const* scales, uint32_t num_granules, float* scores);
};

// The same for values. `scales` are those of V of each granule.
struct ValueFunctions {
  // Weighted values of num_rows <= kMaxTileRows rows over stored granules. May change the weights p, which are +0 from
  // num_slots to the end of its granule.
  void (*add)(uint32_t num_rows, float* p, const uint8_t* const* v, const uint8_t* const* scales, uint32_t num_slots,
              uint32_t dim, float* out, const uint8_t* const* fetch);
  // A granule's first num_slots rows of codes as f32; returns whether all are finite. Null: many rows read what is
  // stored too.
  bool (*decode)(const uint8_t* granule, uint32_t num_slots, uint32_t dim, float* to);
  // What weights need before they meet decoded codes; null: nothing.
  void (*scale_weights)(uint32_t num_rows, const uint8_t* const* scales, uint32_t num_granules, float* weights);
};

struct CodecFunctions {
  uint32_t (*store_key)(const float* x, uint32_t dim, uint8_t* granule, uint8_t* scales, uint32_t lane);
  uint32_t (*store_value)(const float* x, uint32_t dim, uint8_t* granule, uint8_t* scales, uint32_t lane);
  void (*load_key)(const uint8_t* granule, const uint8_t* scales, uint32_t lane, uint32_t dim, float* x);
  void (*load_value)(const uint8_t* granule, const uint8_t* scales, uint32_t lane, uint32_t dim, float* x);
  KeyFunctions keys;
  ValueFunctions values;
};

// ---- Codecs that are read as f32.

template <class Codec, int kDim>
void ScoreStored(uint32_t num_rows, const float* q, uint32_t dim, const uint8_t* const* k, const uint8_t* const* scales,
                 uint32_t num_granules, float* scores, const uint8_t* const* fetch) {
  ScoreRows<kDim, Codec>(num_rows, q, dim, k, num_granules, scores, fetch);
  if constexpr (Codec::kScaleFactor != 0) ScaleScores<Codec>(num_rows, scales, num_granules, scores);
}

template <class Codec, int kDim>
void AddStored(uint32_t num_rows, float* p, const uint8_t* const* v, const uint8_t* const* scales, uint32_t num_slots,
               uint32_t dim, float* out, const uint8_t* const* fetch) {
  if constexpr (Codec::kScaleFactor != 0) {
    ScaleWeights<Codec>(num_rows, scales, (num_slots + kGranuleSlots - 1) / kGranuleSlots, p);
  }
  AddValues<kDim, Codec>(num_rows, p, v, num_slots, dim, out, fetch);
}

// To [dim][16].
template <class Codec>
void DecodeKeys(const uint8_t* granule, uint32_t dim, float* to) {
  constexpr uint32_t kCodes = Codec::kCodesPerLane;
  for (uint32_t d = 0; d < dim; d += kCodes, granule += kUnitBytes<Codec>) {
    for (uint32_t j = 0; j < kCodes; ++j) Store(to + (d + j) * 16, Codec::DecodeLanes(granule, static_cast<int>(j)));
  }
}

// To [slot][dim].
template <class Codec>
bool DecodeValues(const uint8_t* granule, uint32_t num_slots, uint32_t dim, float* to) {
  constexpr uint32_t kCodes = Codec::kCodesPerLane;
  I32x16 largest = Set1I32(0);  // Magnitudes as bits: those of infinity and NaN are above all others.
  for (uint32_t t = 0; t < num_slots; t += kCodes) {
    for (uint32_t d = 0; d < dim; d += 16, granule += kUnitBytes<Codec>) {
      for (uint32_t j = 0; j < kCodes && t + j < num_slots; ++j) {
        const F32x16 values = Codec::DecodeLanes(granule, static_cast<int>(j));
        largest = Max(largest, MagnitudeBits(values));
        Store(to + (t + j) * dim + d, values);
      }
    }
  }
  return HorizontalMax(largest) < kInfinityBits;
}

// ---- The table.

template <class Codec, int kDim>
constexpr CodecFunctions FunctionsOf() {
  CodecFunctions f = {
      StoreRow<Codec, true>, StoreRow<Codec, false>, LoadRow<Codec, true>, LoadRow<Codec, false>, {}, {}};
  if constexpr (Codec::kIsInteger) {
    f.keys = {PrepareIntegerQuery<Codec>, ScoreIntegers<Codec, kDim>, nullptr, nullptr};
    f.values = {AddIntegers<Codec, kDim>, nullptr, nullptr};
  } else if constexpr (Codec::kScaleFactor != 0) {
    f.keys = {nullptr, ScoreStored<Codec, kDim>, DecodeKeys<Codec>, ScaleScores<Codec>};
    f.values = {AddStored<Codec, kDim>, DecodeValues<Codec>, ScaleWeights<Codec>};
  } else {
    f.keys = {nullptr, ScoreStored<Codec, kDim>, DecodeKeys<Codec>, nullptr};
    f.values = {AddStored<Codec, kDim>, DecodeValues<Codec>, nullptr};
  }
  return f;
}

// In the order of KvType. kDim: the head size where it is known when compiling, else 0.
template <int kDim>
inline constexpr CodecFunctions kCodecs[] = {
    FunctionsOf<F32Codec, kDim>(),         FunctionsOf<F16Codec, kDim>(),        FunctionsOf<Bf16Codec, kDim>(),
    FunctionsOf<Fp8Codec<true>, kDim>(),   FunctionsOf<Fp8Codec<false>, kDim>(), FunctionsOf<Int8Codec, kDim>(),
    FunctionsOf<Int4Codec<false>, kDim>(), FunctionsOf<Int4Codec<true>, kDim>(),
};

template <int kDim>
KVERN_INLINE const CodecFunctions& CodecOf(KvType type) {
  return kCodecs<kDim>[static_cast<size_t>(type)];
}
