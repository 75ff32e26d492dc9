// The two paths of attention over the steps of attention_rows.inl.h. Included inside a target's namespace.
#pragma once

#include "kernels/inl/attention_rows.inl.h"
#include "kernels/inl/codecs.inl.h"

// Where a slot stands in what a block holds of a head: its granule's bytes from HeadK, HeadV and HeadScales, the scales
// of V behind those of K, its lane.
struct SlotPlace {
  size_t k, v, scales, v_scales;
  uint32_t lane;
  SlotPlace(const KvView& kv, uint32_t slot)
      : k(slot / kGranuleSlots * KvGranuleBytes(kv.k_type, kv.head_dim)),
        v(slot / kGranuleSlots * KvGranuleBytes(kv.v_type, kv.head_dim)),
        scales(slot / kGranuleSlots * KvGranuleScaleBytes(kv.k_type, kv.v_type, kv.head_dim)),
        v_scales(NumKvScales(kv.k_type, kv.head_dim) * size_t{kGranuleSlots} * sizeof(uint16_t)),
        lane(slot % kGranuleSlots) {}
};

// K and V of the granules of one split, in the order of positions, and their scales.
struct SplitGranules {
  const uint8_t* k[kAttentionSplitSlots / kGranuleSlots];
  const uint8_t* v[kAttentionSplitSlots / kGranuleSlots];
  const uint8_t* k_scales[kAttentionSplitSlots / kGranuleSlots];
  const uint8_t* v_scales[kAttentionSplitSlots / kGranuleSlots];
  uint32_t count = 0;
};

// The granules of `split` that hold its first num_slots slots, looked up in the block table. Pointers behind `count`
// repeat the last granule: as something to fetch ahead they do no harm.
inline void LocateGranules(const AttentionTile& tile, uint32_t split, uint32_t num_slots, SplitGranules& granules) {
  const KvView& kv = *tile.kv;
  const SlotPlace step(kv, kGranuleSlots);  // From a granule to the next.
  const uint32_t first = split * kAttentionSplitSlots;
  const BlockIndex* block = tile.block_table + first / kv.block_size;
  uint32_t slot = first % kv.block_size;
  granules.count = (num_slots + kGranuleSlots - 1) / kGranuleSlots;
  for (uint32_t g = 0; g < granules.count; ++g) {
    if (slot == kv.block_size) {
      slot = 0;
      ++block;
    }
    const uint32_t granule = slot / kGranuleSlots;
    granules.k[g] = kv.HeadK(*block, tile.layer, tile.kv_head) + granule * step.k;
    granules.v[g] = kv.HeadV(*block, tile.layer, tile.kv_head) + granule * step.v;
    granules.k_scales[g] = kv.HeadScales(*block, tile.layer, tile.kv_head) + granule * step.scales;
    granules.v_scales[g] = granules.k_scales[g] + step.v_scales;
    slot += kGranuleSlots;
  }
  for (uint32_t g = granules.count; g > 0 && g < kAttentionSplitSlots / kGranuleSlots; ++g) {
    granules.k[g] = granules.k[g - 1];
    granules.v[g] = granules.v[g - 1];
    granules.k_scales[g] = granules.k_scales[g - 1];
    granules.v_scales[g] = granules.v_scales[g - 1];
  }
}

// Brings the scales of granules into L2.
inline void FetchScales(const AttentionTile& tile, const SplitGranules& granules) {
  const size_t num_bytes = KvGranuleScaleBytes(tile.kv->k_type, tile.kv->v_type, tile.kv->head_dim);
  for (size_t at = 0; at < num_bytes; at += 64) {
    for (uint32_t g = 0; g < granules.count; ++g) Prefetch(granules.k_scales[g] + at);
  }
}

// Slots of the split that any row of the tile sees.
inline uint32_t SlotsNeeded(const AttentionTile& tile, uint32_t split) {
  return VisibleSlots(tile.tokens[tile.num_tokens - 1].position, split);
}

// The granules that the worker needs after those of `split`: of the tile's next split, or of the next tile's first.
// None where nothing follows.
inline void LocateNext(const AttentionTile& tile, uint32_t split, SplitGranules& granules) {
  granules.count = 0;
  if (split + 1 < tile.split_end) {
    LocateGranules(tile, split + 1, SlotsNeeded(tile, split + 1), granules);
  } else if (tile.next != nullptr) {
    LocateGranules(*tile.next, tile.next->split_begin, SlotsNeeded(*tile.next, tile.next->split_begin), granules);
  }
}

// Slots of the split that a row sees.
inline uint32_t VisibleToRow(const AttentionTile& tile, uint32_t row, uint32_t split) {
  return VisibleSlots(tile.tokens[row / tile.group_size].position, split);
}

inline float* PartialOf(const AttentionTile& tile, uint32_t split, uint32_t row) {
  const size_t num_heads = static_cast<size_t>(tile.kv->num_kv_heads) * tile.group_size;
  return tile.partials + tile.tokens[row / tile.group_size].partials +
         (split * num_heads + row % tile.group_size) * AttentionStateFloats(tile.kv->head_dim);
}

// Whether the tile's splits are merged as they come, into one state for each row; else each leaves a partial result.
inline bool FoldsSplits(const AttentionTile& tile) { return tile.partials == nullptr || tile.split_begin == 0; }

// Merges what has been computed for a row and a split to where it belongs.
inline void MergeRow(const AttentionTile& tile, float* states, uint32_t split, uint32_t row, float m,
                     const float* lane_sums, const float* out) {
  const uint32_t dim = tile.kv->head_dim;
  const bool folds = FoldsSplits(tile);
  float* const state = folds ? states + size_t{row} * AttentionStateFloats(dim) : PartialOf(tile, split, row);
  MergeSplit(state, m, lane_sums, out, dim, !folds || split == 0);
}

inline const float* QueryOf(const AttentionTile& tile, uint32_t row) {
  return tile.q + tile.tokens[row / tile.group_size].row * tile.q_stride + row % tile.group_size * tile.kv->head_dim;
}
inline float* OutOf(const AttentionTile& tile, uint32_t row) {
  return tile.out + tile.tokens[row / tile.group_size].row * tile.out_stride +
         row % tile.group_size * tile.kv->head_dim;
}

// Copies the queries of rows [begin, end) together, in the form that the codec of K reads: q is [num_rows][head_dim].
inline void GatherQueries(const AttentionTile& tile, const KeyFunctions& keys, uint32_t begin, uint32_t end, float* q) {
  const size_t dim = tile.kv->head_dim;
  for (uint32_t row = begin; row < end; ++row) {
    std::memcpy(q + row * dim, QueryOf(tile, row), dim * sizeof(float));
    if (keys.prepare_query != nullptr) keys.prepare_query(q + row * dim, tile.kv->head_dim);
  }
}

// What becomes of the states of rows [begin, end) when all splits of a tile that folds them are merged.
inline void FinishRows(const AttentionTile& tile, uint32_t begin, uint32_t end, const float* states) {
  const size_t floats = AttentionStateFloats(tile.kv->head_dim);
  for (uint32_t row = begin; row < end; ++row) {
    const float* const state = states + row * floats;
    if (tile.partials == nullptr) {
      FinishRow(state, OutOf(tile, row), *tile.kv);
    } else {
      std::memcpy(PartialOf(tile, tile.split_end - 1, row), state, floats * sizeof(float));
    }
  }
}

// The tile's scratch, cut up as AttentionScratchBytes counts it.
struct TileScratch {
  float* q;       // [rows][dim], rows up to a multiple of kAttentionRowBlock
  float* states;  // [rows][AttentionStateFloats]
  float* k;       // [16 granules][dim][16] f32
  float* v;       // [256 slots][dim] f32
  float* scores;  // [kAttentionRowBlock][kAttentionScoreStride]
  float* out;     // [kAttentionRowBlock][dim]
  float* sums;    // [kAttentionRowBlock][16]
  float* maxima;  // [kAttentionRowBlock]
  explicit TileScratch(const AttentionTile& tile) {
    const size_t dim = tile.kv->head_dim;
    const size_t rows = (tile.num_rows() + kAttentionRowBlock - 1) / kAttentionRowBlock * kAttentionRowBlock;
    q = reinterpret_cast<float*>(tile.scratch);
    states = q + rows * dim;
    k = states + rows * AttentionStateFloats(tile.kv->head_dim);
    v = k + kAttentionSplitSlots * dim;
    scores = v + kAttentionSplitSlots * dim;
    out = scores + kAttentionRowBlock * kAttentionScoreStride;
    sums = out + kAttentionRowBlock * dim;
    maxima = sums + kAttentionRowBlock * 16;
  }
};

inline void FetchGranule(const uint8_t* granule, size_t num_bytes) {
  for (size_t at = 0; at < num_bytes; at += 64) Prefetch(granule + at);
}

// Scores, softmax, values and merge of at most kMaxTileRows rows that all see the first n >= 1 slots of a split.
// `fetch`: the granules of another split to bring into L2 meanwhile, K during the scores, V during the values; or null.
inline void RunDecodeRows(const AttentionTile& tile, const KeyFunctions& keys, const ValueFunctions& values,
                          const TileScratch& scratch, uint32_t split, const SplitGranules& granules, uint32_t row_begin,
                          uint32_t num_rows, uint32_t n, float c, const SplitGranules* fetch) {
  const uint32_t dim = tile.kv->head_dim;
  keys.score(num_rows, scratch.q + static_cast<size_t>(row_begin) * dim, dim, granules.k, granules.k_scales,
             (n + kGranuleSlots - 1) / kGranuleSlots, scratch.scores, fetch != nullptr ? fetch->k : nullptr);
  // Integer codes are worked through so fast that memory would idle during softmax.
  const uint32_t num_early = fetch != nullptr && values.decode == nullptr ? kEarlyGranules : 0;
  for (uint32_t r = 0; r < num_rows; ++r) {
    for (uint32_t g = r * num_early / num_rows; g < (r + 1) * num_early / num_rows; ++g) {
      FetchGranule(fetch->v[g], KvGranuleBytes(tile.kv->v_type, dim));
    }
    scratch.maxima[r] = SoftmaxOfSplit(scratch.scores + r * kAttentionScoreStride, n, c, scratch.sums + r * 16);
  }
  values.add(num_rows, scratch.scores, granules.v, granules.v_scales, n, dim, scratch.out,
             fetch != nullptr ? fetch->v + num_early : nullptr);
  for (uint32_t r = 0; r < num_rows; ++r) {
    MergeRow(tile, scratch.states, split, row_begin + r, scratch.maxima[r], scratch.sums + r * 16,
             scratch.out + r * dim);
  }
}

// Decode: few rows, K and V read as they are stored, memory is the limit. While a split is multiplied, the next one of
// this tile (or the first of the worker's next tile) is brought into L2.
inline void RunDecodeTile(const AttentionTile& tile, const KeyFunctions& keys, const ValueFunctions& values, float c) {
  const TileScratch scratch(tile);
  GatherQueries(tile, keys, 0, tile.num_rows(), scratch.q);

  SplitGranules granules, next;
  LocateGranules(tile, tile.split_begin, SlotsNeeded(tile, tile.split_begin), next);
  for (uint32_t split = tile.split_begin; split < tile.split_end; ++split) {
    granules = next;
    LocateNext(tile, split, next);
    FetchScales(tile, next);
    // Rows that see the same slots, in passes of even size; only the first pass over a split reads memory.
    const SplitGranules* fetch = next.count > 0 ? &next : nullptr;
    for (uint32_t row = 0, end; row < tile.num_rows(); row = end) {
      const uint32_t n = VisibleToRow(tile, row, split);
      for (end = row + 1; end < tile.num_rows() && VisibleToRow(tile, end, split) == n;) ++end;
      if (n == 0) continue;
      const uint32_t num_passes = (end - row + kMaxTileRows - 1) / kMaxTileRows;
      for (uint32_t pass = 0; pass < num_passes; ++pass) {
        const uint32_t pass_begin = row + pass * (end - row) / num_passes;
        const uint32_t pass_end = row + (pass + 1) * (end - row) / num_passes;
        RunDecodeRows(tile, keys, values, scratch, split, granules, pass_begin, pass_end - pass_begin, n, c, fetch);
        fetch = nullptr;
      }
    }
  }
  if (FoldsSplits(tile)) FinishRows(tile, 0, tile.num_rows(), scratch.states);
}

// Decodes a split's first num_slots slots to f32, K and V each where its codec is read so: whole granules of K, and V.
// `granules` then points to them in scratch. Returns whether all of V is finite.
inline bool DecodeSplit(const KeyFunctions& keys, const ValueFunctions& values, uint32_t num_slots, uint32_t dim,
                        const TileScratch& scratch, SplitGranules& granules) {
  bool is_finite = true;
  for (uint32_t g = 0; g < granules.count; ++g) {
    if (keys.decode != nullptr) {
      float* const k = scratch.k + g * kGranuleSlots * dim;
      keys.decode(granules.k[g], dim, k);
      granules.k[g] = reinterpret_cast<const uint8_t*>(k);
    }
    if (values.decode != nullptr) {
      float* const v = scratch.v + g * kGranuleSlots * dim;
      is_finite &= values.decode(granules.v[g], std::min(kGranuleSlots, num_slots - g * kGranuleSlots), dim, v);
      granules.v[g] = reinterpret_cast<const uint8_t*>(v);
    }
  }
  return is_finite;
}

// Brings the stored K and V of a split into L2, some lines at a time between pieces of arithmetic.
class SplitFetcher {
 public:
  SplitFetcher(const SplitGranules& granules, size_t k_bytes, size_t v_bytes)
      : granules_(granules), k_bytes_(k_bytes), v_bytes_(v_bytes) {}

  uint32_t num_lines() const { return static_cast<uint32_t>(granules_.count * (k_bytes_ + v_bytes_) / 64); }

  void Fetch(uint32_t num_lines) {
    for (; num_lines > 0 && granule_ < granules_.count; --num_lines) {
      Prefetch(offset_ < k_bytes_ ? granules_.k[granule_] + offset_ : granules_.v[granule_] + (offset_ - k_bytes_));
      offset_ += 64;
      if (offset_ == k_bytes_ + v_bytes_) {
        offset_ = 0;
        ++granule_;
      }
    }
  }

 private:
  const SplitGranules& granules_;
  const size_t k_bytes_, v_bytes_;  // Of a granule; multiples of 64.
  uint32_t granule_ = 0;
  size_t offset_ = 0;
};

// Slots of K and of V that all tiles of a block of rows pass before the next ones: what stays in L1.
inline constexpr uint32_t kPrefillKeyChunk = 64;
constexpr uint32_t PrefillValueChunk(uint32_t dim) { return std::max(32u, 8192 / dim / kGranuleSlots * kGranuleSlots); }

// What a block of rows of the prefill path needs to know about the split at hand.
struct PrefillSplit {
  uint32_t split;
  SplitGranules granules;  // In scratch where they are decoded.
  bool values_are_finite;
  SplitFetcher* ahead;       // Of what comes next.
  uint32_t lines_at_a_time;  // That a tile of rows and a chunk of K fetch.
};

// Brings into L2 what rows from `row` on will be copied from (their queries, in the first split of the tile, one block
// ahead) and written to (their results, in the last).
inline void FetchRows(const AttentionTile& tile, uint32_t row, uint32_t split) {
  const uint32_t dim = tile.kv->head_dim;
  const auto fetch = [dim](const float* p) {
    for (uint32_t d = 0; d < dim; d += 16) Prefetch(p + d);
  };
  for (uint32_t r = row; r < row + kMaxTileRows; ++r) {
    const uint32_t ahead = r + kAttentionRowBlock;
    if (split == tile.split_begin && ahead < tile.num_rows()) fetch(QueryOf(tile, ahead));
    if (split + 1 == tile.split_end && tile.partials == nullptr && r < tile.num_rows()) fetch(OutOf(tile, r));
  }
}

// Scores of a tile of kMaxTileRows rows against num_granules granules of a split, decoded or stored.
template <int kDim>
void ScorePrefillRows(const KeyFunctions& keys, const float* q, uint32_t dim, const SplitGranules& granules,
                      uint32_t first, uint32_t num_granules, float* scores) {
  if (keys.decode == nullptr) {
    keys.score(kMaxTileRows, q, dim, granules.k + first, granules.k_scales + first, num_granules, scores, nullptr);
    return;
  }
  ScoreRowsOf<kMaxTileRows, kDim, F32Codec>(q, dim, granules.k + first, num_granules, scores, nullptr);
  if (keys.scale_scores != nullptr) {
    keys.scale_scores(kMaxTileRows, granules.k_scales + first, num_granules, scores);
  }
}

// One split for rows [row_begin, row_begin + kAttentionRowBlock): tiles of kMaxTileRows rows, a chunk of K or V that
// stays in L1 at a time. A tile goes as far as its last row sees; for the others the weights there are +0.
template <int kDim>
void RunPrefillBlock(const AttentionTile& tile, const KeyFunctions& keys, const ValueFunctions& values,
                     const TileScratch& scratch, const PrefillSplit& split, uint32_t row_begin, float c) {
  const uint32_t dim = kDim != 0 ? kDim : tile.kv->head_dim;
  const uint32_t num_rows = std::min(kAttentionRowBlock, tile.num_rows() - row_begin);
  const uint32_t num_tiles = (num_rows + kMaxTileRows - 1) / kMaxTileRows;
  uint32_t visible[kAttentionRowBlock] = {};                      // To each row.
  uint32_t tile_visible[kAttentionRowBlock / kMaxTileRows] = {};  // To the last row of each tile.
  for (uint32_t r = 0; r < num_rows; ++r) {
    visible[r] = VisibleToRow(tile, row_begin + r, split.split);
    tile_visible[r / kMaxTileRows] = visible[r];
  }
  const uint32_t most = visible[num_rows - 1];

  for (uint32_t chunk = 0; chunk < most; chunk += kPrefillKeyChunk) {
    for (uint32_t t = 0; t < num_tiles; ++t) {
      split.ahead->Fetch(split.lines_at_a_time);
      if (chunk == 0) FetchRows(tile, row_begin + t * kMaxTileRows, split.split);
      if (tile_visible[t] <= chunk) continue;
      const uint32_t num_slots = std::min(tile_visible[t] - chunk, kPrefillKeyChunk);
      ScorePrefillRows<kDim>(keys, scratch.q + static_cast<size_t>(row_begin + t * kMaxTileRows) * dim, dim,
                             split.granules, chunk / kGranuleSlots, (num_slots + kGranuleSlots - 1) / kGranuleSlots,
                             scratch.scores + t * kMaxTileRows * kAttentionScoreStride + chunk);
    }
  }
  for (uint32_t r = 0; r < num_rows; ++r) {
    float* const scores = scratch.scores + r * kAttentionScoreStride;
    if (visible[r] > 0) scratch.maxima[r] = SoftmaxOfSplit(scores, visible[r], c, scratch.sums + r * 16);
    const uint32_t written = (visible[r] + kGranuleSlots - 1) / kGranuleSlots * kGranuleSlots;
    for (uint32_t i = written; i < tile_visible[r / kMaxTileRows]; i += 16) Store(scores + i, Zero());
    if (values.scale_weights != nullptr) {
      values.scale_weights(1, split.granules.v_scales, written / kGranuleSlots, scores);
    }
  }
  if (values.decode == nullptr) {
    for (uint32_t t = 0; t < num_tiles; ++t) {
      if (tile_visible[t] == 0) continue;
      values.add(kMaxTileRows, scratch.scores + t * kMaxTileRows * kAttentionScoreStride, split.granules.v,
                 split.granules.v_scales, tile_visible[t], dim,
                 scratch.out + static_cast<size_t>(t * kMaxTileRows) * dim, nullptr);
    }
  } else if (split.values_are_finite) {
    const uint32_t value_chunk = PrefillValueChunk(dim);
    for (uint32_t chunk = 0; chunk < most; chunk += value_chunk) {
      for (uint32_t t = 0; t < num_tiles; ++t) {
        if (tile_visible[t] <= chunk) continue;
        AddValuesOf<kMaxTileRows, kDim, F32Codec>(
            scratch.scores + t * kMaxTileRows * kAttentionScoreStride + chunk, split.granules.v + chunk / kGranuleSlots,
            std::min(tile_visible[t] - chunk, value_chunk), dim,
            scratch.out + static_cast<size_t>(t * kMaxTileRows) * dim, chunk == 0, nullptr);
      }
    }
  } else {  // +0 times infinity or NaN is NaN: every row stops at its own last slot.
    for (uint32_t r = 0; r < num_rows; ++r) {
      AddValuesOf<1, kDim, F32Codec>(scratch.scores + r * kAttentionScoreStride, split.granules.v, visible[r], dim,
                                     scratch.out + static_cast<size_t>(r) * dim, true, nullptr);
    }
  }
  for (uint32_t r = 0; r < num_rows; ++r) {
    if (visible[r] == 0) continue;
    MergeRow(tile, scratch.states, split.split, row_begin + r, scratch.maxima[r], scratch.sums + r * 16,
             scratch.out + static_cast<size_t>(r) * dim);
  }
}

// Prefill: many rows, arithmetic is the limit. K and V of a split are decoded once for all rows of the tile, and the
// next ones are brought into L2 meanwhile.
template <int kDim>
void RunPrefillTile(const AttentionTile& tile, const KeyFunctions& keys, const ValueFunctions& values, float c) {
  const uint32_t dim = kDim != 0 ? kDim : tile.kv->head_dim;
  const uint32_t num_rows = tile.num_rows();
  const TileScratch scratch(tile);
  // The last tile of rows is computed whole; what comes of the missing ones is dropped.
  const uint32_t padded_rows = (num_rows + kMaxTileRows - 1) / kMaxTileRows * kMaxTileRows;
  std::fill(scratch.q + static_cast<size_t>(num_rows) * dim, scratch.q + static_cast<size_t>(padded_rows) * dim, 0.0f);
  // Tiles of rows times chunks of K: the times at which something is fetched ahead.
  const uint32_t num_fetches = padded_rows / kMaxTileRows * (kAttentionSplitSlots / kPrefillKeyChunk);

  PrefillSplit decoded;
  SplitGranules granules, next;
  LocateGranules(tile, tile.split_begin, SlotsNeeded(tile, tile.split_begin), next);
  for (uint32_t split = tile.split_begin; split < tile.split_end; ++split) {
    granules = next;
    LocateNext(tile, split, next);
    FetchScales(tile, next);
    SplitFetcher ahead(next, KvGranuleBytes(tile.kv->k_type, dim), KvGranuleBytes(tile.kv->v_type, dim));
    decoded.split = split;
    decoded.granules = granules;
    decoded.values_are_finite = DecodeSplit(keys, values, SlotsNeeded(tile, split), dim, scratch, decoded.granules);
    decoded.ahead = &ahead;
    decoded.lines_at_a_time = (ahead.num_lines() + num_fetches - 1) / num_fetches;
    for (uint32_t row = 0; row < num_rows; row += kAttentionRowBlock) {
      const uint32_t end = std::min(row + kAttentionRowBlock, num_rows);
      if (split == tile.split_begin) GatherQueries(tile, keys, row, end, scratch.q);
      RunPrefillBlock<kDim>(tile, keys, values, scratch, decoded, row, c);
      if (split + 1 == tile.split_end && FoldsSplits(tile)) FinishRows(tile, row, end, scratch.states);
    }
  }
}
