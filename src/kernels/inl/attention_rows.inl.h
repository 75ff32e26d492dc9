// The steps that every row of attention takes, in their one order (docs/numerics.md, "Attention"): scores, softmax of a
// split, weighted values, merge of splits. The decode and the prefill path are loops around these.
// Included inside a target's namespace after its simd header.
#pragma once

#include "kernels/inl/codec_rows.inl.h"
#include "kernels/inl/elementwise_exp2.inl.h"

// Rows that are multiplied at once, and vectors (granules of K, sixteen dims of V) of each: as many sums as stay in
// registers. Where a vector is an array of floats, tiles would bring nothing but code.
inline constexpr bool kHasVectors = alignof(F32x16) > alignof(float);
inline constexpr int kMaxTileRows = kHasVectors ? 6 : 1;
inline constexpr int kTileVectors = kNumRegisters >= 32 ? 4 : 1;

// Bytes of sixteen codes of a codec that is read as f32, and of one of its units.
template <class Codec>
inline constexpr uint32_t kVectorBytes = 16 * sizeof(typename Codec::Code);
template <class Codec>
inline constexpr uint32_t kUnitBytes = kVectorBytes<Codec>* Codec::kCodesPerLane;

// Scores of kRows rows against kGranules granules of codes, before any scale:
//   scores[row][16 * granule + lane] = fma over d ascending, from +0, of q[row][d] * k[granule][d][lane]
// q: [kRows][dim]. kDim: dim where it is known when compiling, else 0. `fetch`: as many granules of the same size to
// bring into L2 meanwhile, or null.
template <int kRows, int kGranules, int kDim, class Codec>
KVERN_NOINLINE void ScoreTile(const float* q, uint32_t runtime_dim, const uint8_t* const* k, float* scores,
                              const uint8_t* const* fetch) {
  const uint32_t dim = kDim != 0 ? kDim : runtime_dim;
  constexpr uint32_t kCodes = Codec::kCodesPerLane;
  // Dims at a time: whole units, whole cache lines of every granule.
  constexpr uint32_t kStep = std::max(2u, 64 / kVectorBytes<Codec>);
  const uint8_t* granules[kGranules];
  F32x16 sums[kRows][kGranules];
  KVERN_UNROLL for (int g = 0; g < kGranules; ++g) granules[g] = k[g];
  KVERN_UNROLL for (int r = 0; r < kRows; ++r) { KVERN_UNROLL for (int g = 0; g < kGranules; ++g) sums[r][g] = Zero(); }
  for (uint32_t d = 0; d < dim; d += kStep) {
    if (fetch != nullptr) {
      KVERN_UNROLL for (int g = 0; g < kGranules; ++g) {
        KVERN_UNROLL for (uint32_t b = 0; b < kStep * kVectorBytes<Codec>; b += 64) {
          Prefetch(fetch[g] + d * kVectorBytes<Codec> + b);
        }
      }
    }
    KVERN_UNROLL for (uint32_t i = 0; i < kStep; ++i) {
      const uint32_t unit = (d + i / kCodes * kCodes) * kVectorBytes<Codec>;
      F32x16 keys[kGranules];
      KVERN_UNROLL for (int g = 0; g < kGranules; ++g) {
        keys[g] = Codec::DecodeLanes(granules[g] + unit, static_cast<int>(i % kCodes));
      }
      KVERN_UNROLL for (int r = 0; r < kRows; ++r) {
        const F32x16 query = Set1(q[r * dim + d + i]);
        KVERN_UNROLL for (int g = 0; g < kGranules; ++g) sums[r][g] = Fma(query, keys[g], sums[r][g]);
      }
    }
  }
  KVERN_UNROLL for (int r = 0; r < kRows; ++r) {
    KVERN_UNROLL for (int g = 0; g < kGranules; ++g) Store(scores + r * kAttentionScoreStride + g * 16, sums[r][g]);
  }
}

// Adds weighted values of num_slots slots in their order to 16 * kVectors dims of kRows outputs:
//   out[row][d] = fma over slots ascending, from +0 where is_first, of p[row][slot] * v[slot][d]
// v: granules of codes. p: rows of kAttentionScoreStride. out: rows of dim. kDim: as above. `offset`: first of the
// dims. `fetch`: granules to bring into L2 meanwhile, as many as are read, or null.
template <int kRows, int kVectors, int kDim, class Codec>
KVERN_NOINLINE void AddValuesTile(const float* p, const uint8_t* const* v, uint32_t num_slots, uint32_t runtime_dim,
                                  uint32_t offset, float* out, bool is_first, const uint8_t* const* fetch) {
  const uint32_t dim = kDim != 0 ? kDim : runtime_dim;
  constexpr uint32_t kCodes = Codec::kCodesPerLane;
  F32x16 sums[kRows][kVectors];
  out += offset;
  KVERN_UNROLL for (int r = 0; r < kRows; ++r) {
    KVERN_UNROLL for (int i = 0; i < kVectors; ++i) sums[r][i] = is_first ? Zero() : Load(out + r * dim + i * 16);
  }
  for (uint32_t begin = 0; begin < num_slots; begin += 16, ++v, p += 16) {
    const uint8_t* values = *v + offset / 16 * kUnitBytes<Codec>;
    const uint8_t* ahead = fetch != nullptr ? *fetch++ + offset / 16 * kUnitBytes<Codec> : nullptr;
    const uint32_t count = std::min(16u, num_slots - begin);
    for (uint32_t t = 0; t < count; t += kCodes, values += dim / 16 * kUnitBytes<Codec>) {
      if (ahead != nullptr) {
        KVERN_UNROLL for (uint32_t b = 0; b < kVectors * kUnitBytes<Codec>; b += 64) Prefetch(ahead + b);
        ahead += dim / 16 * kUnitBytes<Codec>;
      }
      KVERN_UNROLL for (uint32_t j = 0; j < kCodes; ++j) {
        if (j > 0 && t + j >= count) break;  // Slots behind the last one may hold anything.
        F32x16 row[kVectors];
        KVERN_UNROLL for (int i = 0; i < kVectors; ++i) {
          row[i] = Codec::DecodeLanes(values + i * kUnitBytes<Codec>, static_cast<int>(j));
        }
        KVERN_UNROLL for (int r = 0; r < kRows; ++r) {
          const F32x16 weight = Set1(p[r * kAttentionScoreStride + t + j]);
          KVERN_UNROLL for (int i = 0; i < kVectors; ++i) sums[r][i] = Fma(weight, row[i], sums[r][i]);
        }
      }
    }
  }
  KVERN_UNROLL for (int r = 0; r < kRows; ++r) {
    KVERN_UNROLL for (int i = 0; i < kVectors; ++i) Store(out + r * dim + i * 16, sums[r][i]);
  }
}

// Scores of 1 .. kMaxTileRows rows against num_granules granules; `fetch`: as many to bring into L2, or null.
template <int kRows, int kDim, class Codec>
void ScoreRowsOf(const float* q, uint32_t dim, const uint8_t* const* k, uint32_t num_granules, float* scores,
                 const uint8_t* const* fetch) {
  uint32_t g = 0;
  for (; g + kTileVectors <= num_granules; g += kTileVectors) {
    ScoreTile<kRows, kTileVectors, kDim, Codec>(q, dim, k + g, scores + g * 16, fetch != nullptr ? fetch + g : nullptr);
  }
  if constexpr (kRows == kMaxTileRows && kTileVectors > 2) {  // One granule alone leaves the adders waiting.
    if (g + 2 <= num_granules) {
      ScoreTile<kRows, 2, kDim, Codec>(q, dim, k + g, scores + g * 16, fetch != nullptr ? fetch + g : nullptr);
      g += 2;
    }
  }
  for (; g < num_granules; ++g) {
    ScoreTile<kRows, 1, kDim, Codec>(q, dim, k + g, scores + g * 16, fetch != nullptr ? fetch + g : nullptr);
  }
}

template <int kDim, class Codec>
void ScoreRows(uint32_t num_rows, const float* q, uint32_t dim, const uint8_t* const* k, uint32_t num_granules,
               float* scores, const uint8_t* const* fetch) {
  if constexpr (kMaxTileRows > 1) {
    switch (num_rows) {
      case 2: return ScoreRowsOf<2, kDim, Codec>(q, dim, k, num_granules, scores, fetch);
      case 3: return ScoreRowsOf<3, kDim, Codec>(q, dim, k, num_granules, scores, fetch);
      case 4: return ScoreRowsOf<4, kDim, Codec>(q, dim, k, num_granules, scores, fetch);
      case 5: return ScoreRowsOf<5, kDim, Codec>(q, dim, k, num_granules, scores, fetch);
      case 6: return ScoreRowsOf<6, kDim, Codec>(q, dim, k, num_granules, scores, fetch);
    }
  }
  ScoreRowsOf<1, kDim, Codec>(q, dim, k, num_granules, scores, fetch);
}

// Weighted values of 1 .. kMaxTileRows rows over all dims; out: rows of `dim`. `fetch`: all granules read, or null.
template <int kRows, int kDim, class Codec>
void AddValuesOf(const float* p, const uint8_t* const* v, uint32_t num_slots, uint32_t dim, float* out, bool is_first,
                 const uint8_t* const* fetch) {
  uint32_t d = 0;
  for (; d + 16 * kTileVectors <= dim; d += 16 * kTileVectors) {
    AddValuesTile<kRows, kTileVectors, kDim, Codec>(p, v, num_slots, dim, d, out, is_first, fetch);
  }
  if constexpr (kDim == 0 || kDim % (16 * kTileVectors) != 0) {
    for (; d < dim; d += 16) AddValuesTile<kRows, 1, kDim, Codec>(p, v, num_slots, dim, d, out, is_first, fetch);
  }
}

template <int kDim, class Codec>
void AddValues(uint32_t num_rows, const float* p, const uint8_t* const* v, uint32_t num_slots, uint32_t dim, float* out,
               const uint8_t* const* fetch) {
  if constexpr (kMaxTileRows > 1) {
    switch (num_rows) {
      case 2: return AddValuesOf<2, kDim, Codec>(p, v, num_slots, dim, out, true, fetch);
      case 3: return AddValuesOf<3, kDim, Codec>(p, v, num_slots, dim, out, true, fetch);
      case 4: return AddValuesOf<4, kDim, Codec>(p, v, num_slots, dim, out, true, fetch);
      case 5: return AddValuesOf<5, kDim, Codec>(p, v, num_slots, dim, out, true, fetch);
      case 6: return AddValuesOf<6, kDim, Codec>(p, v, num_slots, dim, out, true, fetch);
    }
  }
  AddValuesOf<1, kDim, Codec>(p, v, num_slots, dim, out, true, fetch);
}

// Of codecs with one scale per row that are read as f32: score = scale * score, in place.
template <class Codec>
void ScaleScores(uint32_t num_rows, const uint8_t* const* scales, uint32_t num_granules, float* scores) {
  for (uint32_t g = 0; g < num_granules; ++g) {
    const F32x16 scale = Mul(LoadF16(reinterpret_cast<const uint16_t*>(scales[g])), Set1(Codec::kScaleFactor));
    for (uint32_t r = 0; r < num_rows; ++r) {
      float* const s = scores + r * kAttentionScoreStride + g * 16;
      Store(s, Mul(scale, Load(s)));
    }
  }
}

// weight = weight * |scale| where the weight is not +0: masked slots may have any scale, NaN too.
KVERN_INLINE F32x16 ScaledWeights(F32x16 weights, F32x16 scales) {
  const F32x16 magnitudes = FloatFromBits(And(BitsOf(scales), Set1I32(0x7fffffff)));
  return Select(Greater(weights, Zero()), Mul(weights, magnitudes), Zero());
}
template <class Codec>
void ScaleWeights(uint32_t num_rows, const uint8_t* const* scales, uint32_t num_granules, float* weights) {
  for (uint32_t g = 0; g < num_granules; ++g) {
    const F32x16 scale = Mul(LoadF16(reinterpret_cast<const uint16_t*>(scales[g])), Set1(Codec::kScaleFactor));
    for (uint32_t r = 0; r < num_rows; ++r) {
      float* const p = weights + r * kAttentionScoreStride + g * 16;
      Store(p, ScaledWeights(Load(p), scale));
    }
  }
}

// One row of one split: turns n >= 1 scores into weights, in place; those up to the next multiple of 16 become +0.
//   m = max(score) * c;  p = 2^(fma(score, c, -m));  lane_sums[i] = sum of p over slots i, i + 16, ... ascending
// Returns m. What stood behind the n scores (keys of unused slots) is never looked at.
KVERN_INLINE float SoftmaxOfSplit(float* scores, uint32_t n, float c, float* lane_sums) {
  const F32x16 minus_infinity = Set1(-std::numeric_limits<float>::infinity());
  const uint32_t num_vectors = (n + 15) / 16;
  if (n % 16 != 0) {
    float* const last = scores + (num_vectors - 1) * 16;
    Store(last, Select(LanesBelow(static_cast<int32_t>(n % 16)), Load(last), minus_infinity));
  }
  // A maximum has no rounding: four chains give what one would.
  F32x16 largest[4] = {minus_infinity, minus_infinity, minus_infinity, minus_infinity};
  uint32_t i = 0;
  for (; i + 4 <= num_vectors; i += 4) {
    KVERN_UNROLL for (uint32_t j = 0; j < 4; ++j) largest[j] = Max(largest[j], Load(scores + (i + j) * 16));
  }
  for (; i < num_vectors; ++i) largest[0] = Max(largest[0], Load(scores + i * 16));
  const float m = HorizontalMax(Max(Max(largest[0], largest[1]), Max(largest[2], largest[3]))) * c;

  const F32x16 minus_m = Set1(-m), factor = Set1(c);
  F32x16 sums = Zero();
  for (i = 0; i < num_vectors; ++i) {
    const F32x16 p = Exp2(Fma(Load(scores + i * 16), factor, minus_m));
    Store(scores + i * 16, p);
    sums = Add(sums, p);
  }
  Store(lane_sums, sums);
  return m;
}

// Merges one split into a row's state (attention_tile.h), splits in order:
//   M' = max(M, m);  a = 2^(M - M'), b = 2^(m - M');  L = fma(L, a, l * b);  O = fma(O, a, (o + 0) * b)
// The first split is the state. Adding +0 turns -0 into +0: a row that went on over masked slots (+0 each) has that.
KVERN_INLINE void MergeSplit(float* state, float m, const float* lane_sums, const float* out, uint32_t dim,
                             bool is_first) {
  if (is_first) {
    state[0] = m;
    Store(state + 16, Load(lane_sums));
    for (uint32_t d = 0; d < dim; d += 16) Store(state + 32 + d, Add(Load(out + d), Zero()));
    return;
  }
  const float larger = state[0] > m ? state[0] : m;
  const F32x16 a = Exp2(Set1(state[0] - larger)), b = Exp2(Set1(m - larger));
  Store(state + 16, Fma(Load(state + 16), a, Mul(Load(lane_sums), b)));
  for (uint32_t d = 0; d < dim; d += 16) {
    Store(state + 32 + d, Fma(Load(state + 32 + d), a, Mul(Add(Load(out + d), Zero()), b)));
  }
  state[0] = larger;
}

// The row's result: O * (1 / l), l = sum of the lanes by the fixed tree; then rotated back where values are stored so.
KVERN_INLINE void FinishRow(const float* state, float* out, const KvView& kv) {
  const F32x16 factor = Set1(1.0f / HorizontalSum(Load(state + 16)));
  for (uint32_t d = 0; d < kv.head_dim; d += 16) Store(out + d, Mul(Load(state + 32 + d), factor));
  if (RotatesValues(kv.v_type, kv.head_dim)) RotateRowBack(out, kv.head_dim);
}
