// The two paths of attention over the steps of attention_rows.inl.h. Included inside a target's namespace.
#pragma once

#include "kernels/inl/attention_rows.inl.h"

// K and V of the granules of one split that a tile reads, in the order of positions.
struct SplitGranules {
  const uint8_t* k[kMaxSplitGranules];
  const uint8_t* v[kMaxSplitGranules];
  uint32_t count = 0;
  SeenGranules seen;
};

// The granules of `split` of which any row of the tile sees a slot, looked up in the block table; no other entry of it
// is. Pointers behind `count` repeat the last granule: as something to fetch ahead they do no harm.
inline void LocateGranules(const AttentionTile& tile, uint32_t split, SplitGranules& granules) {
  const KvView& kv = *tile.kv;
  const size_t k_slot_bytes = kv.head_dim * KvElementBytes(kv.k_type);
  const size_t v_slot_bytes = kv.head_dim * KvElementBytes(kv.v_type);
  FindSeenByTile(tile, split, granules.seen);
  granules.count = granules.seen.count;
  const uint8_t* const number = granules.seen.number;
  const BlockIndex* block = nullptr;
  const uint8_t *k = nullptr, *v = nullptr;
  uint32_t slot = 0;
  for (uint32_t g = 0; g < granules.count; ++g) {
    const bool follows = g > 0 && number[g] == number[g - 1] + 1;
    slot += kGranuleSlots;
    if (follows && slot < kv.block_size) {
      k += kGranuleSlots * k_slot_bytes;
      v += kGranuleSlots * v_slot_bytes;
    } else {
      const uint32_t first = split * kAttentionSplitSlots + number[g] * kGranuleSlots;
      block = follows ? block + 1 : tile.block_table + first / kv.block_size;
      slot = follows ? 0 : first % kv.block_size;
      k = kv.HeadK(*block, tile.layer, tile.kv_head) + slot * k_slot_bytes;
      v = kv.HeadV(*block, tile.layer, tile.kv_head) + slot * v_slot_bytes;
    }
    granules.k[g] = k;
    granules.v[g] = v;
  }
  for (uint32_t g = granules.count; g > 0 && g < kMaxSplitGranules; ++g) {
    granules.k[g] = granules.k[g - 1];
    granules.v[g] = granules.v[g - 1];
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
  float* v;         // [kMaxReadSlots][dim] f32; decode path: copies of stored V
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

// Copies the queries of rows [begin, end) together.
inline void GatherQueries(const AttentionTile& tile, uint32_t begin, uint32_t end, const TileScratch& scratch) {
  const size_t dim = tile.kv->head_dim;
  for (uint32_t row = begin; row < end; ++row) {
    std::memcpy(scratch.q + row * dim, QueryOf(tile, tile.q, row), dim * sizeof(float));
    if (tile.q_pinned == nullptr) continue;
    std::memcpy(scratch.q_pinned + row * dim, QueryOf(tile, tile.q_pinned, row), dim * sizeof(float));
  }
}

// What becomes of the states of rows [begin, end) when all splits of a tile that folds them are merged.
inline void FinishRows(const AttentionTile& tile, uint32_t begin, uint32_t end, const float* states) {
  const size_t floats = AttentionStateFloats(tile.kv->head_dim);
  for (uint32_t row = begin; row < end; ++row) {
    const float* const state = states + row * floats;
    if (tile.partials == nullptr) {
      FinishRow(state, OutOf(tile, row), tile.kv->head_dim);
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

// For each granule of stored V of which a row does not see all slots: a copy with zeros for those, which may hold
// anything, also what times +0 is NaN. v: all granules from then on. copies: room for kMaxReadSlots slots.
inline void HideValues(const SplitGranules& granules, const SeenSlots& seen, size_t slot_bytes, uint8_t* copies,
                       const uint8_t** v) {
  std::memcpy(v, granules.v, sizeof(granules.v));
  for (uint32_t g = seen.begin / kGranuleSlots; g < GranulesOf(seen.end); ++g) {
    if (seen.lanes[g] == 0xffff) continue;
    uint8_t* copy = copies + g * kGranuleSlots * slot_bytes;
    v[g] = copy;
    for (uint32_t t = 0; t < kGranuleSlots; ++t, copy += slot_bytes) {
      if ((seen.lanes[g] >> t & 1) != 0) {
        std::memcpy(copy, granules.v[g] + t * slot_bytes, slot_bytes);
      } else {
        std::memset(copy, 0, slot_bytes);
      }
    }
  }
}

// Scores, softmax, values and merge of at most kMaxTileRows rows that all see the same slots, one at least, of the
// visited split `index`. `fetch`: the granules of another split to bring into L2 meanwhile, K during the scores, V
// during the values; or null.
template <int kDim, class K, class V>
void RunDecodeRows(const AttentionTile& tile, const TileScratch& scratch, uint32_t index, const SplitGranules& granules,
                   const SeenSlots& seen, uint32_t row_begin, uint32_t num_rows, float c, const SplitGranules* fetch) {
  const uint32_t dim = kDim != 0 ? kDim : tile.kv->head_dim;
  const uint32_t first = seen.begin / kGranuleSlots, end = GranulesOf(seen.end);
  const uint32_t pinned_end = std::clamp(granules.seen.num_pinned, first, end);
  const size_t q_offset = static_cast<size_t>(row_begin) * dim;
  if (pinned_end > first) {
    ScoreRows<kDim, K>(num_rows, scratch.q_pinned + q_offset, dim, granules.k + first, pinned_end - first,
                       scratch.scores + seen.begin, fetch != nullptr ? fetch->k + first : nullptr);
  }
  if (end > pinned_end) {
    ScoreRows<kDim, K>(num_rows, scratch.q + q_offset, dim, granules.k + pinned_end, end - pinned_end,
                       scratch.scores + pinned_end * kGranuleSlots, fetch != nullptr ? fetch->k + pinned_end : nullptr);
  }
  const uint8_t* copied_v[kMaxSplitGranules];
  const uint8_t* const* v = granules.v;
  if (seen.has_gaps) {
    for (uint32_t r = 0; r < num_rows; ++r) HideScores(seen, scratch.scores + r * kAttentionScoreStride);
    HideValues(granules, seen, dim * sizeof(V), reinterpret_cast<uint8_t*>(scratch.v), copied_v);
    v = copied_v;
  }
  float* const weights = scratch.scores + seen.begin;
  const uint32_t num_slots = seen.end - seen.begin;
  for (uint32_t r = 0; r < num_rows; ++r) {
    scratch.maxima[r] = SoftmaxOfSplit(weights + r * kAttentionScoreStride, num_slots, c, scratch.sums + r * 16);
  }
  AddValues<kDim, V>(num_rows, weights, v + first, num_slots, dim, scratch.out,
                     fetch != nullptr ? fetch->v + first : nullptr);
  for (uint32_t r = 0; r < num_rows; ++r) {
    MergeRow(tile, scratch.states, index, row_begin + r, scratch.maxima[r], scratch.sums + r * 16,
             scratch.out + r * dim);
  }
}

// Decode: few rows, K and V read as they are stored, memory is the limit. While a split is multiplied, the next one of
// this tile (or the first of the worker's next tile) is brought into L2.
template <int kDim, class K, class V>
void RunDecodeTile(const AttentionTile& tile, float c) {
  const TileScratch scratch(tile);
  GatherQueries(tile, 0, tile.num_rows(), scratch);

  SplitGranules located[2];  // Of this split and of what comes next, in turns.
  LocateGranules(tile, tile.splits[tile.split_begin], located[tile.split_begin % 2]);
  for (uint32_t index = tile.split_begin; index < tile.split_end; ++index) {
    const uint32_t split = tile.splits[index];
    const SplitGranules& granules = located[index % 2];
    SplitGranules& next = located[(index + 1) % 2];
    LocateNext(tile, index, next);
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
        RunDecodeRows<kDim, K, V>(tile, scratch, index, granules, seen, pass_begin, pass_end - pass_begin, c, fetch);
        fetch = nullptr;
      }
    }
  }
  if (FoldsSplits(tile)) FinishRows(tile, 0, tile.num_rows(), scratch.states);
}

// Decodes a split's first num_slots slots to f32: whole granules of K, and V. Returns whether all of V is finite.
template <class K, class V>
bool DecodeSplit(const SplitGranules& granules, uint32_t num_slots, uint32_t dim, float* k, float* v) {
  const uint32_t granule_floats = kGranuleSlots * dim;
  I32x16 largest = Set1I32(0);  // Of the magnitudes of V, as bits: those of infinity and NaN are above all others.
  for (uint32_t g = 0; g < granules.count; ++g) {
    const K* stored_k = reinterpret_cast<const K*>(granules.k[g]);
    const V* stored_v = reinterpret_cast<const V*>(granules.v[g]);
    for (uint32_t i = 0; i < granule_floats; i += 16) Store(k + g * granule_floats + i, LoadStored(stored_k + i));
    const uint32_t v_floats = std::min(granule_floats, (num_slots - g * kGranuleSlots) * dim);
    for (uint32_t i = 0; i < v_floats; i += 16) {
      const F32x16 values = LoadStored(stored_v + i);
      largest = Max(largest, And(BitsOf(values), Set1I32(0x7fffffff)));
      Store(v + g * granule_floats + i, values);
    }
  }
  return HorizontalMax(largest) < 0x7f800000;
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
  uint32_t index;  // Among those visited.
  const SeenGranules* seen;
  const uint8_t* k[kMaxSplitGranules];  // Granules in scratch.
  const uint8_t* v[kMaxSplitGranules];
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
        seen = SeenByToken(*split.seen, tile.tokens[token], tile.splits[split.index]);
      }
      of_row[r] = &seen;
      if (seen.end == 0) continue;
      begin[t] = end[t] == 0 ? seen.begin : std::min(begin[t], seen.begin);
      end[t] = std::max(end[t], seen.end);
      most = std::max(most, seen.end);
    }
  }
};

// Scores of a tile of kMaxTileRows rows, from `row` of the tile on, against slots [begin, end) in scratch.
template <int kDim>
void ScorePrefillTile(const TileScratch& scratch, const PrefillSplit& split, uint32_t row, uint32_t dim, uint32_t begin,
                      uint32_t end, float* scores) {
  const size_t q_offset = static_cast<size_t>(row) * dim;
  const uint32_t pinned_end = std::clamp(split.seen->num_pinned * kGranuleSlots, begin, end);
  if (pinned_end > begin) {
    ScoreRowsOf<kMaxTileRows, kDim, float>(scratch.q_pinned + q_offset, dim, split.k + begin / kGranuleSlots,
                                           GranulesOf(pinned_end - begin), scores + begin, nullptr);
  }
  if (end > pinned_end) {
    ScoreRowsOf<kMaxTileRows, kDim, float>(scratch.q + q_offset, dim, split.k + pinned_end / kGranuleSlots,
                                           GranulesOf(end - pinned_end), scores + pinned_end, nullptr);
  }
}

// Turns a row's scores into weights, and those of all other granules in [begin, end) into +0.
inline void WeighRow(const SeenSlots& seen, uint32_t begin, uint32_t end, float c, float* scores, float* lane_sums,
                     float* maximum) {
  if (seen.end == 0) {
    for (uint32_t i = begin; i < end; i += 16) Store(scores + i, Zero());
    return;
  }
  if (seen.has_gaps) HideScores(seen, scores);
  *maximum = SoftmaxOfSplit(scores + seen.begin, seen.end - seen.begin, c, lane_sums);
  for (uint32_t i = begin; i < seen.begin; i += 16) Store(scores + i, Zero());
  for (uint32_t i = GranulesOf(seen.end) * kGranuleSlots; i < end; i += 16) Store(scores + i, Zero());
}

// Weighted values of the slots that one row sees, and of no other.
template <int kDim>
void AddSeenValues(const SeenSlots& seen, const float* weights, const uint8_t* const* v, uint32_t dim, float* out) {
  if (!seen.has_gaps) {
    AddValuesOf<1, kDim, float>(weights + seen.begin, v + seen.begin / kGranuleSlots, seen.end - seen.begin, dim, out,
                                true, nullptr);
    return;
  }
  bool is_first = true;
  for (uint32_t g = seen.begin / kGranuleSlots; g < GranulesOf(seen.end); ++g) {
    for (uint32_t lanes = seen.lanes[g]; lanes != 0; lanes &= lanes - 1, is_first = false) {
      const auto slot = static_cast<uint32_t>(std::countr_zero(lanes));
      const uint8_t* const value = v[g] + slot * dim * sizeof(float);
      AddValuesOf<1, kDim, float>(weights + g * kGranuleSlots + slot, &value, 1, dim, out, is_first, nullptr);
    }
  }
}

// One split for rows [row_begin, row_begin + kAttentionRowBlock): tiles of kMaxTileRows rows, a chunk of K or V that
// stays in L1 at a time. A tile goes from the first to the last granule that one of its rows sees; for the others the
// weights there are +0.
template <int kDim>
void RunPrefillBlock(const AttentionTile& tile, const TileScratch& scratch, const PrefillSplit& split,
                     uint32_t row_begin, float c) {
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
      ScorePrefillTile<kDim>(scratch, split, row_begin + t * kMaxTileRows, dim, begin, end,
                             scratch.scores + t * kMaxTileRows * kAttentionScoreStride);
    }
  }
  for (uint32_t r = 0; r < num_rows; ++r) {
    const uint32_t t = r / kMaxTileRows;
    WeighRow(*slots.of_row[r], slots.begin[t], slots.end[t], c, scratch.scores + r * kAttentionScoreStride,
             scratch.sums + r * 16, scratch.maxima + r);
  }
  if (split.values_are_finite) {
    const uint32_t value_chunk = PrefillValueChunk(dim);
    for (uint32_t chunk = 0; chunk < slots.most; chunk += value_chunk) {
      for (uint32_t t = 0; t < num_tiles; ++t) {
        const uint32_t begin = std::max(chunk, slots.begin[t]), end = std::min(chunk + value_chunk, slots.end[t]);
        if (begin >= end) continue;
        AddValuesOf<kMaxTileRows, kDim, float>(scratch.scores + t * kMaxTileRows * kAttentionScoreStride + begin,
                                               split.v + begin / kGranuleSlots, end - begin, dim,
                                               scratch.out + static_cast<size_t>(t * kMaxTileRows) * dim,
                                               begin == slots.begin[t], nullptr);
      }
    }
  } else {  // +0 times infinity or NaN is NaN: every row keeps to the slots that it sees.
    for (uint32_t r = 0; r < num_rows; ++r) {
      AddSeenValues<kDim>(*slots.of_row[r], scratch.scores + r * kAttentionScoreStride, split.v, dim,
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
template <int kDim, class K, class V>
void RunPrefillTile(const AttentionTile& tile, float c) {
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
  for (uint32_t g = 0; g < kMaxSplitGranules; ++g) {
    decoded.k[g] = reinterpret_cast<const uint8_t*>(scratch.k + g * kGranuleSlots * dim);
    decoded.v[g] = reinterpret_cast<const uint8_t*>(scratch.v + g * kGranuleSlots * dim);
  }
  SplitGranules granules, next;
  LocateGranules(tile, tile.splits[tile.split_begin], next);
  for (uint32_t index = tile.split_begin; index < tile.split_end; ++index) {
    granules = next;
    LocateNext(tile, index, next);
    SplitFetcher ahead(next, kGranuleSlots * dim * sizeof(K), kGranuleSlots * dim * sizeof(V));
    decoded.index = index;
    decoded.seen = &granules.seen;
    decoded.values_are_finite = DecodeSplit<K, V>(granules, granules.seen.num_slots, dim, scratch.k, scratch.v);
    decoded.ahead = &ahead;
    decoded.lines_at_a_time = (ahead.num_lines() + num_fetches - 1) / num_fetches;
    for (uint32_t row = 0; row < num_rows; row += kAttentionRowBlock) {
      const uint32_t end = std::min(row + kAttentionRowBlock, num_rows);
      if (index == tile.split_begin) GatherQueries(tile, row, end, scratch);
      RunPrefillBlock<kDim>(tile, scratch, decoded, row, c);
      if (index + 1 == tile.split_end && FoldsSplits(tile)) FinishRows(tile, row, end, scratch.states);
    }
  }
}
