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

// K and V of the granules of one split that a tile reads, in the order of positions, and their scales.
struct SplitGranules {
  const uint8_t* k[kMaxSplitGranules];
  const uint8_t* v[kMaxSplitGranules];
  const uint8_t* k_scales[kMaxSplitGranules];
  const uint8_t* v_scales[kMaxSplitGranules];
  uint32_t count = 0;
  SeenGranules seen;
};

// The granules of `split` of which any row of the tile sees a slot, looked up in the block table; no other entry of it
// is. Pointers behind `count` repeat the last granule: as something to fetch ahead they do no harm.
inline void LocateGranules(const AttentionTile& tile, uint32_t split, SplitGranules& granules) {
  const KvView& kv = *tile.kv;
  const SlotPlace step(kv, kGranuleSlots);  // From a granule to the next.
  FindSeenByTile(tile, split, granules.seen);
  granules.count = granules.seen.count;
  const uint8_t* const number = granules.seen.number;
  const BlockIndex* block = nullptr;
  const uint8_t *k = nullptr, *v = nullptr, *scales = nullptr;
  uint32_t slot = 0;
  for (uint32_t g = 0; g < granules.count; ++g) {
    const bool follows = g > 0 && number[g] == number[g - 1] + 1;
    slot += kGranuleSlots;
    if (follows && slot < kv.block_size) {
      k += step.k;
      v += step.v;
      scales += step.scales;
    } else {
      const uint32_t first = split * kAttentionSplitSlots + number[g] * kGranuleSlots;
      block = follows ? block + 1 : tile.block_table + first / kv.block_size;
      slot = follows ? 0 : first % kv.block_size;
      const uint32_t granule = slot / kGranuleSlots;
      k = kv.HeadK(*block, tile.layer, tile.kv_head) + granule * step.k;
      v = kv.HeadV(*block, tile.layer, tile.kv_head) + granule * step.v;
      scales = kv.HeadScales(*block, tile.layer, tile.kv_head) + granule * step.scales;
    }
    granules.k[g] = k;
    granules.v[g] = v;
    granules.k_scales[g] = scales;
    granules.v_scales[g] = scales + step.v_scales;
  }
  for (uint32_t g = granules.count; g > 0 && g < kMaxSplitGranules; ++g) {
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

// The granules that the worker needs after those of the tile's visited split `index`: of the next one, or of the next
// tile's first. None where nothing follows.
inline void LocateNext(const AttentionTile& tile, uint32_t index, SplitGranules& granules) {
  granules.count = 0;
  if (index + 1 < tile.split_end) {
    LocateGranules(tile, tile.splits[index + 1], granules);
  } else if (tile.next != nullptr) {
    LocateGranules(*tile.next, tile.next->splits[tile.next->split_begin], granules);
  }
}

// `index`: of a split among those visited.
inline float* PartialOf(const AttentionTile& tile, uint32_t index, uint32_t row) {
  const size_t num_heads = static_cast<size_t>(tile.kv->num_kv_heads) * tile.group_size;
  return tile.partials + tile.tokens[row / tile.group_size].partials +
         (index * num_heads + row % tile.group_size) * AttentionStateFloats(tile.kv->head_dim);
}

// Whether the tile's splits are merged as they come, into one state for each row; else each leaves a partial result.
inline bool FoldsSplits(const AttentionTile& tile) { return tile.partials == nullptr || tile.split_begin == 0; }

// Merges what has been computed for a row and a visited split to where it belongs.
inline void MergeRow(const AttentionTile& tile, float* states, uint32_t index, uint32_t row, float m,
                     const float* lane_sums, const float* out) {
  const uint32_t dim = tile.kv->head_dim;
  const bool folds = FoldsSplits(tile);
  const bool is_first = tile.splits[index] == tile.tokens[row / tile.group_size].first_split;
  float* const state = folds ? states + size_t{row} * AttentionStateFloats(dim) : PartialOf(tile, index, row);
  MergeSplit(state, m, lane_sums, out, dim, !folds || is_first);
}

// Of a row, in queries laid out like tile.q.
inline const float* QueryOf(const AttentionTile& tile, const float* queries, uint32_t row) {
  return queries + tile.tokens[row / tile.group_size].row * tile.q_stride + row % tile.group_size * tile.kv->head_dim;
}
inline float* OutOf(const AttentionTile& tile, uint32_t row) {
  return tile.out + tile.tokens[row / tile.group_size].row * tile.out_stride +
         row % tile.group_size * tile.kv->head_dim;
}

// The tile's scratch, cut up as AttentionScratchBytes counts it.
struct TileScratch {
  float* q;         // [rows][dim], rows up to a multiple of kAttentionRowBlock
  float* states;    // [rows][AttentionStateFloats]
  float* k;         // [kMaxSplitGranules][dim][16] f32
  float* v;         // [kMaxReadSlots][dim] f32
  float* scores;    // [kAttentionRowBlock][kAttentionScoreStride]
  float* out;       // [kAttentionRowBlock][dim]
  float* sums;      // [kAttentionRowBlock][16]
  float* maxima;    // [kAttentionRowBlock]
  float* q_pinned;  // Like q, where pinned slots have queries of their own
  explicit TileScratch(const AttentionTile& tile) {
    const size_t dim = tile.kv->head_dim;
    const size_t rows = (tile.num_rows() + kAttentionRowBlock - 1) / kAttentionRowBlock * kAttentionRowBlock;
    q = reinterpret_cast<float*>(tile.scratch);
    states = q + rows * dim;
    k = states + rows * AttentionStateFloats(tile.kv->head_dim);
    v = k + kMaxReadSlots * dim;
    scores = v + kMaxReadSlots * dim;
    out = scores + kAttentionRowBlock * kAttentionScoreStride;
    sums = out + kAttentionRowBlock * dim;
    maxima = sums + kAttentionRowBlock * 16;
    q_pinned = maxima + kAttentionRowBlock * 16;
  }
};

// Copies the queries of rows [begin, end) together, in the form that the codec of K reads.
inline void GatherQueries(const AttentionTile& tile, const KeyFunctions& keys, uint32_t begin, uint32_t end,
                          const TileScratch& scratch) {
  const uint32_t dim = tile.kv->head_dim;
  const auto gather = [&](const float* queries, uint32_t row, float* to) {
    std::memcpy(to, QueryOf(tile, queries, row), dim * sizeof(float));
    if (keys.prepare_query != nullptr) keys.prepare_query(to, dim);
  };
  for (uint32_t row = begin; row < end; ++row) {
    gather(tile.q, row, scratch.q + size_t{row} * dim);
    if (tile.q_pinned != nullptr) gather(tile.q_pinned, row, scratch.q_pinned + size_t{row} * dim);
  }
}

// What becomes of the states of rows [begin, end) when all splits of a tile that folds them are merged.
inline void FinishRows(const AttentionTile& tile, uint32_t begin, uint32_t end, const float* states) {
  const size_t floats = AttentionStateFloats(tile.kv->head_dim);
  for (uint32_t row = begin; row < end; ++row) {
    const float* const state = states + row * floats;
    if (tile.partials == nullptr) {
      FinishRow(state, OutOf(tile, row), *tile.kv);
    } else if (tile.tokens[row / tile.group_size].first_split <= tile.splits[tile.split_end - 1]) {
      std::memcpy(PartialOf(tile, tile.split_end - 1, row), state, floats * sizeof(float));
    }
  }
}

inline uint32_t GranulesOf(uint32_t num_slots) { return (num_slots + kGranuleSlots - 1) / kGranuleSlots; }

// Turns the scores of the slots in [begin, end) that a row does not see into -inf, whose weight is +0.
inline void HideScores(const SeenSlots& seen, float* scores) {
  for (uint32_t slot = seen.begin; slot < seen.end; slot += kGranuleSlots) {
    const uint32_t lanes = seen.lanes[slot / kGranuleSlots];
    for (uint32_t hidden = ~lanes & 0xffff; hidden != 0; hidden &= hidden - 1) {
      scores[slot + static_cast<uint32_t>(std::countr_zero(hidden))] = -std::numeric_limits<float>::infinity();
    }
  }
}

// Weighted values where a row does not see all slots from the first to the last: those between may hold anything, also
// what times +0 is NaN. V that is read as f32 is decoded, with zeros there, and read from scratch; integer codes have
// no NaN.
inline void AddValuesWithGaps(const ValueFunctions& values, const TileScratch& scratch, const SplitGranules& granules,
                              const SeenSlots& seen, uint32_t num_rows, uint32_t dim, float* weights) {
  const uint32_t first = seen.begin / kGranuleSlots, end = GranulesOf(seen.end), num_slots = seen.end - seen.begin;
  if (values.decode == nullptr) {
    values.add(num_rows, weights, granules.v + first, granules.v_scales + first, num_slots, dim, scratch.out, nullptr);
    return;
  }
  const uint8_t* decoded[kMaxSplitGranules];
  for (uint32_t g = first; g < end; ++g) {
    float* const v = scratch.v + size_t{g} * kGranuleSlots * dim;
    values.decode(granules.v[g], kGranuleSlots, dim, v);
    for (uint32_t hidden = ~uint32_t{seen.lanes[g]} & 0xffff; hidden != 0; hidden &= hidden - 1) {
      std::memset(v + static_cast<uint32_t>(std::countr_zero(hidden)) * size_t{dim}, 0, dim * sizeof(float));
    }
    decoded[g] = reinterpret_cast<const uint8_t*>(v);
  }
  if (values.scale_weights != nullptr) {
    values.scale_weights(num_rows, granules.v_scales + first, end - first, weights);
  }
  CodecOf<0>(KvType::kF32)
      .values.add(num_rows, weights, decoded + first, nullptr, num_slots, dim, scratch.out, nullptr);
}

inline void FetchGranule(const uint8_t* granule, size_t num_bytes) {
  for (size_t at = 0; at < num_bytes; at += 64) Prefetch(granule + at);
}

// Scores, softmax, values and merge of at most kMaxTileRows rows that all see the same slots, one at least, of the
// visited split `index`. `fetch`: the granules of another split to bring into L2 meanwhile, K during the scores, V
// during the values; or null.
inline void RunDecodeRows(const AttentionTile& tile, const KeyFunctions& keys, const ValueFunctions& values,
                          const TileScratch& scratch, uint32_t index, const SplitGranules& granules,
                          const SeenSlots& seen, uint32_t row_begin, uint32_t num_rows, float c,
                          const SplitGranules* fetch) {
  const uint32_t dim = tile.kv->head_dim;
  const uint32_t first = seen.begin / kGranuleSlots, end = GranulesOf(seen.end);
  const uint32_t pinned_end = std::clamp(granules.seen.num_pinned, first, end);
  const size_t q_offset = static_cast<size_t>(row_begin) * dim;
  const uint8_t* const* const k_ahead = fetch != nullptr ? fetch->k : nullptr;
  if (pinned_end > first) {
    keys.score(num_rows, scratch.q_pinned + q_offset, dim, granules.k + first, granules.k_scales + first,
               pinned_end - first, scratch.scores + seen.begin, end > pinned_end ? nullptr : k_ahead);
  }
  if (end > pinned_end) {
    keys.score(num_rows, scratch.q + q_offset, dim, granules.k + pinned_end, granules.k_scales + pinned_end,
               end - pinned_end, scratch.scores + pinned_end * kGranuleSlots, k_ahead);
  }
  if (seen.has_gaps) {
    for (uint32_t r = 0; r < num_rows; ++r) HideScores(seen, scratch.scores + r * kAttentionScoreStride);
  }
  float* const weights = scratch.scores + seen.begin;
  const uint32_t num_slots = seen.end - seen.begin;
  // Integer codes are worked through so fast that memory would idle during softmax.
  const uint32_t num_early = fetch != nullptr && values.decode == nullptr ? kEarlyGranules : 0;
  for (uint32_t r = 0; r < num_rows; ++r) {
    for (uint32_t g = r * num_early / num_rows; g < (r + 1) * num_early / num_rows; ++g) {
      FetchGranule(fetch->v[g], KvGranuleBytes(tile.kv->v_type, dim));
    }
    scratch.maxima[r] = SoftmaxOfSplit(weights + r * kAttentionScoreStride, num_slots, c, scratch.sums + r * 16);
  }
  if (seen.has_gaps) {
    AddValuesWithGaps(values, scratch, granules, seen, num_rows, dim, weights);
  } else {
    values.add(num_rows, weights, granules.v + first, granules.v_scales + first, num_slots, dim, scratch.out,
               fetch != nullptr ? fetch->v + num_early : nullptr);
  }
  for (uint32_t r = 0; r < num_rows; ++r) {
    MergeRow(tile, scratch.states, index, row_begin + r, scratch.maxima[r], scratch.sums + r * 16,
             scratch.out + r * dim);
  }
}

// Decode: few rows, K and V read as they are stored, memory is the limit. While a split is multiplied, the next one of
// this tile (or the first of the worker's next tile) is brought into L2.
inline void RunDecodeTile(const AttentionTile& tile, const KeyFunctions& keys, const ValueFunctions& values, float c) {
  const TileScratch scratch(tile);
  GatherQueries(tile, keys, 0, tile.num_rows(), scratch);

  SplitGranules located[2];  // Of this split and of what comes next, in turns.
  LocateGranules(tile, tile.splits[tile.split_begin], located[tile.split_begin % 2]);
  for (uint32_t index = tile.split_begin; index < tile.split_end; ++index) {
    const uint32_t split = tile.splits[index];
    const SplitGranules& granules = located[index % 2];
    SplitGranules& next = located[(index + 1) % 2];
    LocateNext(tile, index, next);
    FetchScales(tile, next);
    // Rows that see the same slots, in passes of even size; only the first pass over a split reads memory.
    const SplitGranules* fetch = next.count > 0 ? &next : nullptr;
    for (uint32_t token = 0, end; token < tile.num_tokens; token = end) {
      const SeenSlots seen = SeenByToken(granules.seen, tile.tokens[token], split);
      for (end = token + 1; end < tile.num_tokens; ++end) {
        if (!SeenByToken(granules.seen, tile.tokens[end], split).IsSameRange(seen)) break;
      }
      if (seen.end == 0) continue;
      const uint32_t row = token * tile.group_size, num_rows = (end - token) * tile.group_size;
      const uint32_t num_passes = (num_rows + kMaxTileRows - 1) / kMaxTileRows;
      for (uint32_t pass = 0; pass < num_passes; ++pass) {
        const uint32_t pass_begin = row + pass * num_rows / num_passes;
        const uint32_t pass_end = row + (pass + 1) * num_rows / num_passes;
        RunDecodeRows(tile, keys, values, scratch, index, granules, seen, pass_begin, pass_end - pass_begin, c, fetch);
        fetch = nullptr;
      }
    }
  }
  if (FoldsSplits(tile)) FinishRows(tile, 0, tile.num_rows(), scratch.states);
}

// Decodes what the tile reads of a split to f32, K and V each where its codec is read so: whole granules of K, and V up
// to the last slot that a token sees. `granules` then points to them in scratch. Returns whether all of V is finite.
inline bool DecodeSplit(const KeyFunctions& keys, const ValueFunctions& values, uint32_t dim,
                        const TileScratch& scratch, SplitGranules& granules) {
  bool is_finite = true;
  for (uint32_t g = 0; g < granules.count; ++g) {
    if (keys.decode != nullptr) {
      float* const k = scratch.k + size_t{g} * kGranuleSlots * dim;
      keys.decode(granules.k[g], dim, k);
      granules.k[g] = reinterpret_cast<const uint8_t*>(k);
    }
    if (values.decode != nullptr) {
      float* const v = scratch.v + size_t{g} * kGranuleSlots * dim;
      const uint32_t num_slots = std::min(kGranuleSlots, granules.seen.num_slots - g * kGranuleSlots);
      is_finite &= values.decode(granules.v[g], num_slots, dim, v);
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
  uint32_t index;          // Among those visited.
  SplitGranules granules;  // In scratch where they are decoded.
  bool values_are_finite;
  SplitFetcher* ahead;       // Of what comes next.
  uint32_t lines_at_a_time;  // That a tile of rows and a chunk of K fetch.
};

// Brings into L2 what rows from `row` on will be copied from (their queries, in the first split of the tile, one block
// ahead) and written to (their results, in the last).
inline void FetchRows(const AttentionTile& tile, uint32_t row, uint32_t index) {
  const uint32_t dim = tile.kv->head_dim;
  const auto fetch = [dim](const float* p) {
    for (uint32_t d = 0; d < dim; d += 16) Prefetch(p + d);
  };
  for (uint32_t r = row; r < row + kMaxTileRows; ++r) {
    const uint32_t ahead = r + kAttentionRowBlock;
    if (index == tile.split_begin && ahead < tile.num_rows()) fetch(QueryOf(tile, tile.q, ahead));
    if (index + 1 == tile.split_end && tile.partials == nullptr && r < tile.num_rows()) fetch(OutOf(tile, r));
  }
}

// What the rows of a block see of a split, and between which slots the tiles of kMaxTileRows among them compute: from
// the first to the last granule in which one of their rows sees a slot.
struct BlockSlots {
  SeenSlots of_token[kAttentionRowBlock];
  const SeenSlots* of_row[kAttentionRowBlock];
  uint32_t begin[kAttentionRowBlock / kMaxTileRows] = {}, end[kAttentionRowBlock / kMaxTileRows] = {};
  uint32_t most = 0;  // The largest end.

  BlockSlots(const AttentionTile& tile, const PrefillSplit& split, uint32_t row_begin, uint32_t num_rows) {
    const uint32_t first_token = row_begin / tile.group_size;
    for (uint32_t r = 0; r < num_rows; ++r) {
      const uint32_t token = (row_begin + r) / tile.group_size, t = r / kMaxTileRows;
      SeenSlots& seen = of_token[token - first_token];
      if (r == 0 || of_row[r - 1] != &seen) {
        seen = SeenByToken(split.granules.seen, tile.tokens[token], tile.splits[split.index]);
      }
      of_row[r] = &seen;
      if (seen.end == 0) continue;
      begin[t] = end[t] == 0 ? seen.begin : std::min(begin[t], seen.begin);
      end[t] = std::max(end[t], seen.end);
      most = std::max(most, seen.end);
    }
  }
};

// Scores of a tile of kMaxTileRows rows against num_granules granules of a split from `first` on, decoded or stored.
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

// The same for the rows from `row` of the tile on and slots [begin, end), pinned ones by their own queries.
template <int kDim>
void ScorePrefillTile(const KeyFunctions& keys, const TileScratch& scratch, const PrefillSplit& split, uint32_t row,
                      uint32_t dim, uint32_t begin, uint32_t end, float* scores) {
  const size_t q_offset = static_cast<size_t>(row) * dim;
  const uint32_t pinned_end = std::clamp(split.granules.seen.num_pinned * kGranuleSlots, begin, end);
  if (pinned_end > begin) {
    ScorePrefillRows<kDim>(keys, scratch.q_pinned + q_offset, dim, split.granules, begin / kGranuleSlots,
                           GranulesOf(pinned_end - begin), scores + begin);
  }
  if (end > pinned_end) {
    ScorePrefillRows<kDim>(keys, scratch.q + q_offset, dim, split.granules, pinned_end / kGranuleSlots,
                           GranulesOf(end - pinned_end), scores + pinned_end);
  }
}

// Turns a row's scores into weights, as V that is decoded needs them, and those of all other granules in [begin, end)
// into +0.
inline void WeighRow(const ValueFunctions& values, const SplitGranules& granules, const SeenSlots& seen, uint32_t begin,
                     uint32_t end, float c, float* scores, float* lane_sums, float* maximum) {
  if (seen.end == 0) {
    for (uint32_t i = begin; i < end; i += 16) Store(scores + i, Zero());
    return;
  }
  if (seen.has_gaps) HideScores(seen, scores);
  *maximum = SoftmaxOfSplit(scores + seen.begin, seen.end - seen.begin, c, lane_sums);
  const uint32_t first = seen.begin / kGranuleSlots, seen_end = GranulesOf(seen.end);
  if (values.scale_weights != nullptr) {
    values.scale_weights(1, granules.v_scales + first, seen_end - first, scores + seen.begin);
  }
  for (uint32_t i = begin; i < seen.begin; i += 16) Store(scores + i, Zero());
  for (uint32_t i = seen_end * kGranuleSlots; i < end; i += 16) Store(scores + i, Zero());
}

// Weighted values of the slots that one row sees, and of no other.
template <int kDim>
void AddSeenValues(const SeenSlots& seen, const float* weights, const uint8_t* const* v, uint32_t dim, float* out) {
  if (!seen.has_gaps) {
    AddValuesOf<1, kDim, F32Codec>(weights + seen.begin, v + seen.begin / kGranuleSlots, seen.end - seen.begin, dim,
                                   out, true, nullptr);
    return;
  }
  bool is_first = true;
  for (uint32_t g = seen.begin / kGranuleSlots; g < GranulesOf(seen.end); ++g) {
    for (uint32_t lanes = seen.lanes[g]; lanes != 0; lanes &= lanes - 1, is_first = false) {
      const auto slot = static_cast<uint32_t>(std::countr_zero(lanes));
      const uint8_t* const value = v[g] + slot * dim * sizeof(float);
      AddValuesOf<1, kDim, F32Codec>(weights + g * kGranuleSlots + slot, &value, 1, dim, out, is_first, nullptr);
    }
  }
}

// One split for rows [row_begin, row_begin + kAttentionRowBlock): tiles of kMaxTileRows rows, a chunk of K or V that
// stays in L1 at a time. A tile goes from the first to the last granule that one of its rows sees; for the others the
// weights there are +0.
template <int kDim>
void RunPrefillBlock(const AttentionTile& tile, const KeyFunctions& keys, const ValueFunctions& values,
                     const TileScratch& scratch, const PrefillSplit& split, uint32_t row_begin, float c) {
  const uint32_t dim = kDim != 0 ? kDim : tile.kv->head_dim;
  const uint32_t num_rows = std::min(kAttentionRowBlock, tile.num_rows() - row_begin);
  const uint32_t num_tiles = (num_rows + kMaxTileRows - 1) / kMaxTileRows;
  const BlockSlots slots(tile, split, row_begin, num_rows);

  for (uint32_t chunk = 0; chunk < slots.most; chunk += kPrefillKeyChunk) {
    for (uint32_t t = 0; t < num_tiles; ++t) {
      split.ahead->Fetch(split.lines_at_a_time);
      if (chunk == 0) FetchRows(tile, row_begin + t * kMaxTileRows, split.index);
      const uint32_t begin = std::max(chunk, slots.begin[t]), end = std::min(chunk + kPrefillKeyChunk, slots.end[t]);
      if (begin >= end) continue;
      ScorePrefillTile<kDim>(keys, scratch, split, row_begin + t * kMaxTileRows, dim, begin, end,
                             scratch.scores + t * kMaxTileRows * kAttentionScoreStride);
    }
  }
  for (uint32_t r = 0; r < num_rows; ++r) {
    const uint32_t t = r / kMaxTileRows;
    WeighRow(values, split.granules, *slots.of_row[r], slots.begin[t], slots.end[t], c,
             scratch.scores + r * kAttentionScoreStride, scratch.sums + r * 16, scratch.maxima + r);
  }
  if (values.decode == nullptr) {
    for (uint32_t t = 0; t < num_tiles; ++t) {
      const uint32_t begin = slots.begin[t], end = slots.end[t];
      if (begin >= end) continue;
      values.add(kMaxTileRows, scratch.scores + t * kMaxTileRows * kAttentionScoreStride + begin,
                 split.granules.v + begin / kGranuleSlots, split.granules.v_scales + begin / kGranuleSlots, end - begin,
                 dim, scratch.out + static_cast<size_t>(t * kMaxTileRows) * dim, nullptr);
    }
  } else if (split.values_are_finite) {
    const uint32_t value_chunk = PrefillValueChunk(dim);
    for (uint32_t chunk = 0; chunk < slots.most; chunk += value_chunk) {
      for (uint32_t t = 0; t < num_tiles; ++t) {
        const uint32_t begin = std::max(chunk, slots.begin[t]), end = std::min(chunk + value_chunk, slots.end[t]);
        if (begin >= end) continue;
        AddValuesOf<kMaxTileRows, kDim, F32Codec>(scratch.scores + t * kMaxTileRows * kAttentionScoreStride + begin,
                                                  split.granules.v + begin / kGranuleSlots, end - begin, dim,
                                                  scratch.out + static_cast<size_t>(t * kMaxTileRows) * dim,
                                                  begin == slots.begin[t], nullptr);
      }
    }
  } else {  // +0 times infinity or NaN is NaN: every row keeps to the slots that it sees.
    for (uint32_t r = 0; r < num_rows; ++r) {
      AddSeenValues<kDim>(*slots.of_row[r], scratch.scores + r * kAttentionScoreStride, split.granules.v, dim,
                          scratch.out + static_cast<size_t>(r) * dim);
    }
  }
  for (uint32_t r = 0; r < num_rows; ++r) {
    if (slots.of_row[r]->end == 0) continue;
    MergeRow(tile, scratch.states, split.index, row_begin + r, scratch.maxima[r], scratch.sums + r * 16,
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
  const size_t padding_begin = static_cast<size_t>(num_rows) * dim,
               padding_end = static_cast<size_t>(padded_rows) * dim;
  std::fill(scratch.q + padding_begin, scratch.q + padding_end, 0.0f);
  if (tile.q_pinned != nullptr) std::fill(scratch.q_pinned + padding_begin, scratch.q_pinned + padding_end, 0.0f);
  // Tiles of rows times chunks of K: the times at which something is fetched ahead.
  const uint32_t num_fetches = padded_rows / kMaxTileRows * (kAttentionSplitSlots / kPrefillKeyChunk);

  PrefillSplit decoded;
  SplitGranules granules, next;
  LocateGranules(tile, tile.splits[tile.split_begin], next);
  for (uint32_t index = tile.split_begin; index < tile.split_end; ++index) {
    granules = next;
    LocateNext(tile, index, next);
    FetchScales(tile, next);
    SplitFetcher ahead(next, KvGranuleBytes(tile.kv->k_type, dim), KvGranuleBytes(tile.kv->v_type, dim));
    decoded.index = index;
    decoded.granules = granules;
    decoded.values_are_finite = DecodeSplit(keys, values, dim, scratch, decoded.granules);
    decoded.ahead = &ahead;
    decoded.lines_at_a_time = (ahead.num_lines() + num_fetches - 1) / num_fetches;
    for (uint32_t row = 0; row < num_rows; row += kAttentionRowBlock) {
      const uint32_t end = std::min(row + kAttentionRowBlock, num_rows);
      if (index == tile.split_begin) GatherQueries(tile, keys, row, end, scratch);
      RunPrefillBlock<kDim>(tile, keys, values, scratch, decoded, row, c);
      if (index + 1 == tile.split_end && FoldsSplits(tile)) FinishRows(tile, row, end, scratch.states);
    }
  }
}
