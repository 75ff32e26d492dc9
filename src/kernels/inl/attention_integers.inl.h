// Attention over int8 and int4 codes: sums of products of integers, which are exact in any order (docs/numerics.md,
// "Attention over quantised rows"). A query enters as 15 or 8 bits per value, the weights of a split as 15 bits per
// slot. Included inside a target's namespace after its simd headers.
#pragma once

#include "kernels/inl/attention_rows.inl.h"

// Rows, and granules of K or vectors of V, whose sums (two registers each on most targets) stand in registers at once.
inline constexpr int kIntegerRows = kNumRegisters >= 32 ? 6 : kHasVectors ? 3 : 1;
inline constexpr int kIntegerVectors = kNumRegisters >= 32 ? 2 : 1;

// Of the values that are fetched ahead, the granules that come before the products do: during softmax.
inline constexpr uint32_t kEarlyGranules = 4;

// Gives out a run of granules line after line, each where the last one ended: the order that memory likes best.
class LineCursor {
 public:
  LineCursor(const uint8_t* const* granules, uint32_t num_granules, size_t granule_bytes)
      : granules_(granules), end_(granules != nullptr ? granules + num_granules : nullptr), bytes_(granule_bytes) {}

  // Where the next num_bytes (that divide a granule) stand, or null when all have been given.
  KVERN_INLINE const uint8_t* Take(size_t num_bytes) {
    if (granules_ == end_) return nullptr;
    const uint8_t* const at = *granules_ + offset_;
    offset_ += num_bytes;
    if (offset_ >= bytes_) {
      offset_ = 0;
      ++granules_;
    }
    return at;
  }

 private:
  const uint8_t* const* granules_;
  const uint8_t* const* end_;
  size_t bytes_, offset_ = 0;
};

KVERN_INLINE void FetchNext(LineCursor& cursor, size_t num_bytes) {
  const uint8_t* const lines = cursor.Take(num_bytes);
  if (lines == nullptr) return;
  for (size_t at = 0; at < num_bytes; at += 64) Prefetch(lines + at);
}

// Codes as the products take them: all of int8, the low or the high halves of int4.
template <int kBits>
KVERN_INLINE Bytes64 CodesOfHalf(Bytes64 bytes, int half) {
  if constexpr (kBits == 8) {
    return bytes;
  } else {
    return half == 0 ? Field<0, 4, 0>(bytes) : Field<4, 4, 0>(bytes);
  }
}

// ---- K

// What scores read of a query, in the place of its dim floats: factors, 2 * dim bytes; then its scale; then the sum of
// the factors of each scale group.
KVERN_INLINE uint32_t GroupDimsOf(KvType type, uint32_t dim) { return dim / NumKvScales(type, dim); }

// Turns a query into that form:
//   m infinite or NaN: scale = NaN, factors 0;   m < 2^-100: scale = +0, factors 0
//   else: scale = m / top, factor = integer(q * (top / m))          m = max |q|, top = 16256 or 127
template <class Codec>
void PrepareIntegerQuery(float* q, uint32_t dim) {
  constexpr float kTop = Codec::kQuery == KvFactor::kQuery8 ? 127 : 16256;
  if (RotatesKeys(Codec::kType, dim)) RotateRowBack(q, dim);
  const int32_t largest = LargestMagnitudeBits(q, dim);
  const float m = std::bit_cast<float>(largest);
  const bool is_finite = largest < kInfinityBits, is_zero = is_finite && m < kSmallestMagnitude;
  const float scale = is_zero ? 0.0f : is_finite ? m / kTop : std::numeric_limits<float>::quiet_NaN();
  const float inverse = is_zero || !is_finite ? 0.0f : kTop / m;
  uint8_t* const bytes = reinterpret_cast<uint8_t*>(q);
  const uint32_t group_dims = GroupDimsOf(Codec::kType, dim);
  int32_t group_sums[32];
  for (uint32_t begin = 0; begin < dim; begin += group_dims) {
    I32x16 sum = Set1I32(0);
    for (uint32_t d = begin; d < begin + group_dims; d += 16) {
      const I32x16 factors = is_finite ? ToI32(Mul(Load(q + d), Set1(inverse))) : Set1I32(0);
      sum = Add(sum, factors);
      StoreFactors<Codec::kQuery, Codec::kBits>(bytes + 2 * d, factors);
    }
    group_sums[begin / group_dims] = HorizontalSum(sum);
  }
  std::memcpy(bytes + 2 * dim, &scale, sizeof(scale));
  std::memcpy(bytes + 2 * dim + 4, group_sums, dim / group_dims * sizeof(int32_t));
}

// Scores of kRows rows against kGranules granules, from queries in the form above:
//   s = +0;  s = fma(scale[group][lane], float(sum of factor * code over the group), s), groups ascending
//   scores[row][16 * granule + lane] = s * scale of the query
template <KvFactor kQuery, int kBits, int kRows, int kGranules>
KVERN_INLINE void ScoreIntegerTile(const uint8_t* queries, uint32_t dim, uint32_t group_dims, const uint8_t* const* k,
                                   const uint8_t* const* scales, float* scores, LineCursor& ahead) {
  constexpr uint32_t kUnits = kBits == 8 ? 4 : 2;  // Of 16 dims.
  const size_t query_bytes = size_t{dim} * sizeof(float);
  const uint8_t* codes[kGranules];
  KVERN_UNROLL for (int g = 0; g < kGranules; ++g) codes[g] = k[g];
  for (uint32_t begin = 0, group = 0; begin < dim; begin += group_dims, ++group) {
    KvSum<kQuery, kBits> sums[kRows][kGranules];
    KVERN_UNROLL for (int r = 0; r < kRows; ++r) {
      KVERN_UNROLL for (int g = 0; g < kGranules; ++g) sums[r][g] = KvDotBegin<kQuery, kBits>();
    }
    for (uint32_t d = begin; d < begin + group_dims; d += 16) {
      const uint8_t* lines[kGranules];
      KVERN_UNROLL for (int g = 0; g < kGranules; ++g) lines[g] = ahead.Take(kUnits * 64);
      KVERN_UNROLL for (uint32_t unit = 0; unit < kUnits; ++unit) {
        if (lines[kGranules - 1] != nullptr) {
          KVERN_UNROLL for (uint32_t i = unit * kGranules; i < (unit + 1) * kGranules; ++i) {
            Prefetch(lines[i / kUnits] + i % kUnits * 64);
          }
        }
        Bytes64 bytes[kGranules];
        KVERN_UNROLL for (int g = 0; g < kGranules; ++g) {
          bytes[g] = LoadBytes(codes[g] + (d / 16 * kUnits + unit) * 64);
        }
        KVERN_UNROLL for (int half = 0; half < 8 / kBits; ++half) {
          KvCodes<kQuery, kBits> prepared[kGranules];
          KVERN_UNROLL for (int g = 0; g < kGranules; ++g) {
            prepared[g] = PrepareKvCodes<kQuery, kBits>(CodesOfHalf<kBits>(bytes[g], half));
          }
          KVERN_UNROLL for (int r = 0; r < kRows; ++r) {
            const auto factors = LoadFactors<kQuery, kBits>(queries + r * query_bytes + 2 * d,
                                                            static_cast<int>(unit) * (8 / kBits) + half);
            KVERN_UNROLL for (int g = 0; g < kGranules; ++g) KvDotAdd<kQuery, kBits>(sums[r][g], prepared[g], factors);
          }
        }
      }
      if (kBits == 4 && d % 32 != 0) {
        KVERN_UNROLL for (int r = 0; r < kRows; ++r) {
          KVERN_UNROLL for (int g = 0; g < kGranules; ++g) KvDotFlush<kQuery, kBits>(sums[r][g]);
        }
      }
    }
    const bool is_last = begin + group_dims == dim;
    KVERN_UNROLL for (int r = 0; r < kRows; ++r) {
      float query_scale;
      int32_t factor_sum;
      const uint8_t* const trailer = queries + r * query_bytes + 2 * dim;
      std::memcpy(&query_scale, trailer, sizeof(query_scale));
      std::memcpy(&factor_sum, trailer + 4 + 4 * group, sizeof(factor_sum));
      KVERN_UNROLL for (int g = 0; g < kGranules; ++g) {
        float* const score = scores + r * kAttentionScoreStride + g * 16;
        const F32x16 scale = LoadF16(reinterpret_cast<const uint16_t*>(scales[g]) + group * 16);
        const F32x16 dot =
            ToF32(Sub(KvDotEnd<kQuery, kBits>(sums[r][g]), Set1I32(kKvCodeOffset<kQuery, kBits> * factor_sum)));
        const F32x16 s = Fma(scale, dot, begin == 0 ? Zero() : Load(score));
        Store(score, is_last ? Mul(s, Set1(query_scale)) : s);
      }
    }
  }
}

template <class Codec, int kDim, int kRows>
KVERN_NOINLINE void ScoreIntegerRowsOf(const uint8_t* queries, uint32_t runtime_dim, const uint8_t* const* k,
                                       const uint8_t* const* scales, uint32_t num_granules, float* scores,
                                       const uint8_t* const* fetch) {
  const uint32_t dim = kDim != 0 ? kDim : runtime_dim;
  const uint32_t group_dims = GroupDimsOf(Codec::kType, dim);
  LineCursor ahead(fetch, kAttentionSplitSlots / kGranuleSlots, KvGranuleBytes(Codec::kType, dim));
  uint32_t g = 0;
  for (; g + kIntegerVectors <= num_granules; g += kIntegerVectors) {
    ScoreIntegerTile<Codec::kQuery, Codec::kBits, kRows, kIntegerVectors>(queries, dim, group_dims, k + g, scales + g,
                                                                          scores + g * 16, ahead);
  }
  if constexpr (kIntegerVectors > 1) {
    if (g < num_granules) {
      ScoreIntegerTile<Codec::kQuery, Codec::kBits, kRows, 1>(queries, dim, group_dims, k + g, scales + g,
                                                              scores + g * 16, ahead);
    }
  }
}

// Any number of rows up to kMaxTileRows; queries stand dim floats apart. Only the first pass over K reads memory.
template <class Codec, int kDim>
void ScoreIntegers(uint32_t num_rows, const float* q, uint32_t dim, const uint8_t* const* k,
                   const uint8_t* const* scales, uint32_t num_granules, float* scores, const uint8_t* const* fetch) {
  for (uint32_t row = 0, count; row < num_rows; row += count, fetch = nullptr) {
    count = std::min<uint32_t>(num_rows - row, kIntegerRows);
    const uint8_t* const queries = reinterpret_cast<const uint8_t*>(q + size_t{row} * dim);
    float* const to = scores + row * kAttentionScoreStride;
    if constexpr (kIntegerRows > 1) {
      switch (count) {
        case 2: ScoreIntegerRowsOf<Codec, kDim, 2>(queries, dim, k, scales, num_granules, to, fetch); continue;
        case 3: ScoreIntegerRowsOf<Codec, kDim, 3>(queries, dim, k, scales, num_granules, to, fetch); continue;
      }
      if constexpr (kIntegerRows > 3) {
        switch (count) {
          case 4: ScoreIntegerRowsOf<Codec, kDim, 4>(queries, dim, k, scales, num_granules, to, fetch); continue;
          case 5: ScoreIntegerRowsOf<Codec, kDim, 5>(queries, dim, k, scales, num_granules, to, fetch); continue;
          case 6: ScoreIntegerRowsOf<Codec, kDim, 6>(queries, dim, k, scales, num_granules, to, fetch); continue;
        }
      }
    }
    ScoreIntegerRowsOf<Codec, kDim, 1>(queries, dim, k, scales, num_granules, to, fetch);
  }
}

// ---- V

// The weights of one row, split and scale group as integers.
struct IntegerWeights {
  alignas(64) uint8_t factors[2 * kMaxReadSlots];
  float back;       // What a sum of factor * code is multiplied with.
  int32_t num_all;  // The sum of the factors.
};

//   p' = p * |scale| where p > 0, else +0;  m = max p'
//   factor = integer(p' * (32767 / m)), 0 where m <= 2^-90;  back = m * (1 / 32767), NaN where m is infinite or NaN
// p: rows of kAttentionScoreStride, weights of num_granules granules.
template <int kBits, int kRows>
KVERN_NOINLINE void PrepareWeights(const float* p, const uint8_t* const* scales, uint32_t group, uint32_t num_granules,
                                   IntegerWeights* weights, LineCursor& fetch, size_t bytes_at_a_time) {
  float scaled[kRows][kMaxReadSlots];
  I32x16 largest[kRows], sums[kRows];
  KVERN_UNROLL for (int r = 0; r < kRows; ++r) largest[r] = sums[r] = Set1I32(0);
  for (uint32_t g = 0; g < num_granules; ++g) {
    FetchNext(fetch, bytes_at_a_time);
    const F32x16 scale = LoadF16(reinterpret_cast<const uint16_t*>(scales[g]) + group * 16);
    KVERN_UNROLL for (int r = 0; r < kRows; ++r) {
      const F32x16 x = ScaledWeights(Load(p + r * kAttentionScoreStride + g * 16), scale);
      largest[r] = Max(largest[r], BitsOf(x));  // None is negative: their bits are ordered as they are.
      Store(scaled[r] + g * 16, x);
    }
  }
  float inverse[kRows];
  KVERN_UNROLL for (int r = 0; r < kRows; ++r) {
    const int32_t bits = HorizontalMax(largest[r]);
    const float m = std::bit_cast<float>(bits);
    const bool is_finite = bits < kInfinityBits;
    inverse[r] = is_finite && m > 0x1p-90f ? 32767.0f / m : 0.0f;
    weights[r].back = is_finite ? m * (1.0f / 32767.0f) : std::numeric_limits<float>::quiet_NaN();
  }
  for (uint32_t g = 0; g < num_granules; ++g) {
    FetchNext(fetch, bytes_at_a_time);
    KVERN_UNROLL for (int r = 0; r < kRows; ++r) {
      const F32x16 shifted = Fma(Load(scaled[r] + g * 16), Set1(inverse[r]), Set1(12582912.0f));
      const I32x16 factors = And(BitsOf(shifted), Set1I32(0x7fff));
      sums[r] = Add(sums[r], factors);
      StoreFactors<KvFactor::kWeight, kBits>(weights[r].factors + 32 * g, factors);
    }
  }
  KVERN_UNROLL for (int r = 0; r < kRows; ++r) weights[r].num_all = HorizontalSum(sums[r]);
}

// Weighted values of kRows rows: for kVectors vectors of 16 dims from `offset` on
//   out[row][d] = float(sum of factor * code over the slots) * back
// v: units of four slots, one or (4 bits) two vectors each. kHalf: which of the two, where only one is wanted.
template <int kBits, int kRows, int kVectors, int kHalf>
KVERN_INLINE void AddIntegerTile(const IntegerWeights* weights, const uint8_t* const* v, uint32_t num_granules,
                                 uint32_t dim, uint32_t offset, float* out, LineCursor& fetch) {
  constexpr uint32_t kUnitDims = kBits == 8 ? 16 : 32;
  constexpr uint32_t kLines = kBits == 8 ? kVectors : 1;
  KvSum<KvFactor::kWeight, kBits> sums[kRows][kVectors];
  KVERN_UNROLL for (int r = 0; r < kRows; ++r) {
    KVERN_UNROLL for (int i = 0; i < kVectors; ++i) sums[r][i] = KvDotBegin<KvFactor::kWeight, kBits>();
  }
  LineCursor ahead = fetch;
  for (uint32_t g = 0; g < num_granules; ++g) {
    const uint8_t* const codes = v[g] + offset / kUnitDims * 64;
    const uint8_t* const lines = ahead.Take(2 * kLines * 64);  // What is left is half as much as is read.
    KVERN_UNROLL for (uint32_t four = 0; four < 4; ++four) {
      if (lines != nullptr && four % 2 == 0) {
        KVERN_UNROLL for (uint32_t i = 0; i < kLines; ++i) Prefetch(lines + (four / 2 * kLines + i) * 64);
      }
      const uint8_t* const unit = codes + four * (dim / kUnitDims) * 64;
      KvCodes<KvFactor::kWeight, kBits> prepared[kVectors];
      KVERN_UNROLL for (int i = 0; i < kVectors; ++i) {
        const Bytes64 bytes = LoadBytes(unit + (kBits == 8 ? i * 64 : 0));
        prepared[i] = PrepareKvCodes<KvFactor::kWeight, kBits>(CodesOfHalf<kBits>(bytes, kVectors == 1 ? kHalf : i));
      }
      KVERN_UNROLL for (int r = 0; r < kRows; ++r) {
        const auto factors = LoadFactors<KvFactor::kWeight, kBits>(weights[r].factors + 32 * g, static_cast<int>(four));
        KVERN_UNROLL for (int i = 0; i < kVectors; ++i)
            KvDotAdd<KvFactor::kWeight, kBits>(sums[r][i], prepared[i], factors);
      }
    }
    KVERN_UNROLL for (int r = 0; r < kRows; ++r) {
      KVERN_UNROLL for (int i = 0; i < kVectors; ++i) KvDotFlush<KvFactor::kWeight, kBits>(sums[r][i]);
    }
  }
  fetch = ahead;
  KVERN_UNROLL for (int r = 0; r < kRows; ++r) {
    const I32x16 correction = Set1I32(kKvCodeOffset<KvFactor::kWeight, kBits> * weights[r].num_all);
    KVERN_UNROLL for (int i = 0; i < kVectors; ++i) {
      const F32x16 sum = ToF32(Sub(KvDotEnd<KvFactor::kWeight, kBits>(sums[r][i]), correction));
      Store(out + r * dim + offset + i * 16, Mul(sum, Set1(weights[r].back)));
    }
  }
}

// kRows rows, all dims.
template <class Codec, int kDim, int kRows>
KVERN_NOINLINE void AddIntegerRowsOf(const float* p, const uint8_t* const* v, const uint8_t* const* scales,
                                     uint32_t num_granules, uint32_t runtime_dim, float* out, LineCursor fetch) {
  constexpr int kBits = Codec::kBits;
  const uint32_t dim = kDim != 0 ? kDim : runtime_dim;
  const uint32_t group_dims = GroupDimsOf(Codec::kType, dim);
  IntegerWeights weights[kRows];
  // As many granules as during softmax come while weights are prepared: two loops over granules for each scale group.
  const size_t early_bytes = kEarlyGranules * KvGranuleBytes(Codec::kType, dim);
  const size_t bytes_at_a_time = std::max<size_t>(64, early_bytes / (32 * (dim / group_dims)) / 64 * 64);
  for (uint32_t begin = 0; begin < dim; begin += group_dims) {
    PrepareWeights<kBits, kRows>(p, scales, begin / group_dims, num_granules, weights, fetch, bytes_at_a_time);
    uint32_t d = begin;
    const uint32_t end = begin + group_dims;
    if constexpr (kIntegerVectors == 2) {
      for (; d + 32 <= end; d += 32) AddIntegerTile<kBits, kRows, 2, 0>(weights, v, num_granules, dim, d, out, fetch);
    }
    if constexpr (kBits == 8) {
      for (; d < end; d += 16) AddIntegerTile<kBits, kRows, 1, 0>(weights, v, num_granules, dim, d, out, fetch);
    } else if constexpr (kIntegerVectors == 1) {
      LineCursor none(nullptr, 0, 0);
      for (; d < end; d += 32) {
        AddIntegerTile<kBits, kRows, 1, 0>(weights, v, num_granules, dim, d, out, fetch);
        AddIntegerTile<kBits, kRows, 1, 1>(weights, v, num_granules, dim, d, out + 16, none);
      }
    }
  }
}

// Any number of rows up to kMaxTileRows; p: rows of kAttentionScoreStride, +0 behind what a row sees.
template <class Codec, int kDim>
void AddIntegers(uint32_t num_rows, float* p, const uint8_t* const* v, const uint8_t* const* scales, uint32_t num_slots,
                 uint32_t dim, float* out, const uint8_t* const* fetch) {
  const uint32_t num_granules = (num_slots + kGranuleSlots - 1) / kGranuleSlots;
  for (uint32_t row = 0, count; row < num_rows; row += count, fetch = nullptr) {
    count = std::min<uint32_t>(num_rows - row, kIntegerRows);
    const LineCursor ahead(fetch, kAttentionSplitSlots / kGranuleSlots - kEarlyGranules,
                           KvGranuleBytes(Codec::kType, dim));
    const float* const from = p + row * kAttentionScoreStride;
    float* const to = out + size_t{row} * dim;
    if constexpr (kIntegerRows > 1) {
      switch (count) {
        case 2: AddIntegerRowsOf<Codec, kDim, 2>(from, v, scales, num_granules, dim, to, ahead); continue;
        case 3: AddIntegerRowsOf<Codec, kDim, 3>(from, v, scales, num_granules, dim, to, ahead); continue;
      }
      if constexpr (kIntegerRows > 3) {
        switch (count) {
          case 4: AddIntegerRowsOf<Codec, kDim, 4>(from, v, scales, num_granules, dim, to, ahead); continue;
          case 5: AddIntegerRowsOf<Codec, kDim, 5>(from, v, scales, num_granules, dim, to, ahead); continue;
          case 6: AddIntegerRowsOf<Codec, kDim, 6>(from, v, scales, num_granules, dim, to, ahead); continue;
        }
      }
    }
    AddIntegerRowsOf<Codec, kDim, 1>(from, v, scales, num_granules, dim, to, ahead);
  }
}
