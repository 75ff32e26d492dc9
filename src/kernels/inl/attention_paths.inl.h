// The two paths of attention over the steps of attention_rows.inl.h. Included inside a target's namespace.
#pragma once

#include "kernels/inl/attention_rows.inl.h"

// K and V of the granules of one split, in the order of positions.
struct SplitGranules {
  const uint8_t* k[kAttentionSplitSlots / kGranuleSlots];
  const uint8_t* v[kAttentionSplitSlots / kGranuleSlots];
  uint32_t count = 0;
};

// The granules of `split` that hold its first num_slots slots, looked up in the block table. Pointers behind `count`
// repeat the last granule: as something to fetch ahead they do no harm.
inline void LocateGranules(const AttentionTile& tile, uint32_t split, uint32_t num_slots, SplitGranules& granules) {
  const KvView& kv = *tile.kv;
  const size_t k_slot_bytes = kv.head_dim * KvElementBytes(kv.k_type);
  const size_t v_slot_bytes = kv.head_dim * KvElementBytes(kv.v_type);
  const uint32_t first = split * kAttentionSplitSlots;
  const BlockIndex* block = tile.block_table + first / kv.block_size;
  uint32_t slot = first % kv.block_size;
  granules.count = (num_slots + kGranuleSlots - 1) / kGranuleSlots;
  for (uint32_t g = 0; g < granules.count; ++g) {
    if (slot == kv.block_size) {
      slot = 0;
      ++block;
    }
    granules.k[g] = kv.HeadK(*block, tile.layer, tile.kv_head) + slot * k_slot_bytes;
    granules.v[g] = kv.HeadV(*block, tile.layer, tile.kv_head) + slot * v_slot_bytes;
    slot += kGranuleSlots;
  }
  for (uint32_t g = granules.count; g > 0 && g < kAttentionSplitSlots / kGranuleSlots; ++g) {
    granules.k[g] = granules.k[g - 1];
    granules.v[g] = granules.v[g - 1];
  }
}

inline uint32_t PositionOf(const AttentionTile& tile, uint32_t token) { return tile.first_position + token; }

// Slots of the split that any row of the tile sees.
inline uint32_t SlotsNeeded(const AttentionTile& tile, uint32_t split) {
  return VisibleSlots(PositionOf(tile, tile.token_end - 1), split);
}

// Where the state of a row stands while (or after) `split` is merged into it.
inline float* StateOf(const AttentionTile& tile, float* states, uint32_t split, uint32_t row) {
  const size_t stride = AttentionStateFloats(tile.kv->head_dim);
  if (tile.partials == nullptr) return states + row * stride;
  return tile.partials + (static_cast<size_t>(split) * tile.num_rows() + row) * stride;
}

// Copies the tile's queries together: [num_rows][head_dim].
inline void GatherQueries(const AttentionTile& tile, float* q) {
  const size_t floats = static_cast<size_t>(tile.group_size) * tile.kv->head_dim;
  for (uint32_t token = tile.token_begin; token < tile.token_end; ++token, q += floats) {
    std::memcpy(q, tile.q + token * tile.q_stride, floats * sizeof(float));
  }
}

inline void WriteRows(const AttentionTile& tile, const float* states) {
  const uint32_t dim = tile.kv->head_dim;
  for (uint32_t token = tile.token_begin; token < tile.token_end; ++token) {
    float* out = tile.out + token * tile.out_stride;
    for (uint32_t head = 0; head < tile.group_size; ++head, out += dim, states += AttentionStateFloats(dim)) {
      FinishRow(states, out, dim);
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

// Decode: few rows, K and V read as they are stored, memory is the limit. While a split is multiplied, the next one of
// this tile (or the first of the worker's next tile) is brought into L2: K during the scores, V during the values.
template <int kDim, class K, class V>
void RunDecodeTile(const AttentionTile& tile, float c) {
  const uint32_t dim = kDim != 0 ? kDim : tile.kv->head_dim;
  const TileScratch scratch(tile);
  GatherQueries(tile, scratch.q);
  // Heads of a token in passes of even size; only the first pass over a split reads memory.
  const uint32_t num_passes = (tile.group_size + kMaxTileRows - 1) / kMaxTileRows;

  SplitGranules granules, next;
  LocateGranules(tile, tile.split_begin, SlotsNeeded(tile, tile.split_begin), next);
  for (uint32_t split = tile.split_begin; split < tile.split_end; ++split) {
    granules = next;
    next.count = 0;
    if (split + 1 < tile.split_end) {
      LocateGranules(tile, split + 1, SlotsNeeded(tile, split + 1), next);
    } else if (tile.next != nullptr) {
      LocateGranules(*tile.next, tile.next->split_begin, SlotsNeeded(*tile.next, tile.next->split_begin), next);
    }
    bool fetches = next.count > 0;
    for (uint32_t token = tile.token_begin; token < tile.token_end; ++token) {
      const uint32_t n = VisibleSlots(PositionOf(tile, token), split);
      if (n == 0) continue;
      const uint32_t num_granules = (n + kGranuleSlots - 1) / kGranuleSlots;
      for (uint32_t pass = 0; pass < num_passes; ++pass) {
        const uint32_t head_begin = pass * tile.group_size / num_passes;
        const uint32_t num_rows = (pass + 1) * tile.group_size / num_passes - head_begin;
        const uint32_t row = (token - tile.token_begin) * tile.group_size + head_begin;
        ScoreRows<kDim, K>(num_rows, scratch.q + static_cast<size_t>(row) * dim, dim, granules.k, num_granules,
                           scratch.scores, fetches ? next.k : nullptr);
        for (uint32_t r = 0; r < num_rows; ++r) {
          scratch.maxima[r] = SoftmaxOfSplit(scratch.scores + r * kAttentionScoreStride, n, c, scratch.sums + r * 16);
        }
        AddValues<V>(num_rows, scratch.scores, granules.v, n, dim, scratch.out, fetches ? next.v : nullptr);
        for (uint32_t r = 0; r < num_rows; ++r) {
          MergeSplit(StateOf(tile, scratch.states, split, row + r), scratch.maxima[r], scratch.sums + r * 16,
                     scratch.out + r * dim, dim, tile.partials != nullptr || split == 0);
        }
        fetches = false;
      }
    }
  }
  if (tile.partials == nullptr) WriteRows(tile, scratch.states);
}

// Decodes a split's first num_slots slots to f32: whole granules of K, and V. Returns whether all of V is finite.
template <class K, class V>
bool DecodeSplit(const SplitGranules& granules, uint32_t num_slots, uint32_t dim, float* k, float* v) {
  const uint32_t granule_floats = kGranuleSlots * dim;
  F32x16 zeros = Zero();  // 0 * v is NaN where v is not finite.
  for (uint32_t g = 0; g < granules.count; ++g) {
    const K* stored_k = reinterpret_cast<const K*>(granules.k[g]);
    const V* stored_v = reinterpret_cast<const V*>(granules.v[g]);
    for (uint32_t i = 0; i < granule_floats; i += 16) Store(k + g * granule_floats + i, LoadStored(stored_k + i));
    const uint32_t v_floats = std::min(granule_floats, (num_slots - g * kGranuleSlots) * dim);
    for (uint32_t i = 0; i < v_floats; i += 16) {
      const F32x16 values = LoadStored(stored_v + i);
      zeros = Fma(values, Zero(), zeros);
      Store(v + g * granule_floats + i, values);
    }
  }
  return HorizontalSum(zeros) == 0;
}

// What a block of rows of the prefill path needs to know about the split at hand.
struct PrefillSplit {
  uint32_t split;
  const uint8_t* k[kAttentionSplitSlots / kGranuleSlots];  // Granules in scratch.
  const uint8_t* v[kAttentionSplitSlots / kGranuleSlots];
  bool values_are_finite;
};

// Slots of the split that a row sees; rows beyond the tile's last see none.
inline uint32_t VisibleToRow(const AttentionTile& tile, uint32_t row, uint32_t split) {
  if (row >= tile.num_rows()) return 0;
  return VisibleSlots(PositionOf(tile, tile.token_begin + row / tile.group_size), split);
}

// One split for rows [row_begin, row_begin + kAttentionRowBlock): tiles of kMaxTileRows rows, a chunk of K or V that
// stays in L1 at a time. A tile goes as far as its last row sees; for the others the weights there are +0.
template <int kDim>
void RunPrefillBlock(const AttentionTile& tile, const TileScratch& scratch, const PrefillSplit& split,
                     uint32_t row_begin, float c) {
  constexpr uint32_t kTiles = kAttentionRowBlock / kMaxTileRows, kChunk = 64;
  const uint32_t dim = kDim != 0 ? kDim : tile.kv->head_dim;
  const uint32_t row_end = std::min(row_begin + kAttentionRowBlock, tile.num_rows());
  const uint32_t num_tiles = (row_end - row_begin + kMaxTileRows - 1) / kMaxTileRows;
  uint32_t visible[kTiles];  // To the last row of each tile.
  for (uint32_t t = 0; t < num_tiles; ++t) {
    visible[t] = VisibleToRow(tile, std::min(row_begin + (t + 1) * kMaxTileRows, row_end) - 1, split.split);
  }
  const uint32_t most = visible[num_tiles - 1];

  for (uint32_t chunk = 0; chunk < most; chunk += kChunk) {
    for (uint32_t t = 0; t < num_tiles; ++t) {
      if (visible[t] <= chunk) continue;
      const uint32_t num_granules = (std::min(visible[t] - chunk, kChunk) + kGranuleSlots - 1) / kGranuleSlots;
      ScoreRowsOf<kMaxTileRows, kDim, float>(
          scratch.q + static_cast<size_t>(row_begin + t * kMaxTileRows) * dim, dim, split.k + chunk / kGranuleSlots,
          num_granules, scratch.scores + t * kMaxTileRows * kAttentionScoreStride + chunk, nullptr);
    }
  }
  for (uint32_t r = 0; r < num_tiles * kMaxTileRows; ++r) {
    const uint32_t n = VisibleToRow(tile, row_begin + r, split.split);
    float* const scores = scratch.scores + r * kAttentionScoreStride;
    if (n > 0) scratch.maxima[r] = SoftmaxOfSplit(scores, n, c, scratch.sums + r * 16);
    const uint32_t written = (n + kGranuleSlots - 1) / kGranuleSlots * kGranuleSlots;
    for (uint32_t i = written; i < visible[r / kMaxTileRows]; i += 16) Store(scores + i, Zero());
  }
  if (split.values_are_finite) {
    for (uint32_t chunk = 0; chunk < most; chunk += kChunk) {
      for (uint32_t t = 0; t < num_tiles; ++t) {
        if (visible[t] <= chunk) continue;
        AddValuesOf<kMaxTileRows, float>(scratch.scores + t * kMaxTileRows * kAttentionScoreStride + chunk,
                                         split.v + chunk / kGranuleSlots, std::min(visible[t] - chunk, kChunk), dim,
                                         scratch.out + static_cast<size_t>(t * kMaxTileRows) * dim, chunk == 0,
                                         nullptr);
      }
    }
  } else {  // +0 times infinity or NaN is NaN: every row stops at its own last slot.
    for (uint32_t r = 0; r < row_end - row_begin; ++r) {
      const uint32_t n = VisibleToRow(tile, row_begin + r, split.split);
      AddValuesOf<1, float>(scratch.scores + r * kAttentionScoreStride, split.v, n, dim,
                            scratch.out + static_cast<size_t>(r) * dim, true, nullptr);
    }
  }
  for (uint32_t r = 0; r < row_end - row_begin; ++r) {
    if (VisibleToRow(tile, row_begin + r, split.split) == 0) continue;
    MergeSplit(StateOf(tile, scratch.states, split.split, row_begin + r), scratch.maxima[r], scratch.sums + r * 16,
               scratch.out + static_cast<size_t>(r) * dim, dim, tile.partials != nullptr || split.split == 0);
  }
}

// Prefill: many rows, arithmetic is the limit. K and V of a split are decoded once for all rows of the tile.
template <int kDim, class K, class V>
void RunPrefillTile(const AttentionTile& tile, float c) {
  const uint32_t dim = kDim != 0 ? kDim : tile.kv->head_dim;
  const uint32_t num_rows = tile.num_rows();
  const TileScratch scratch(tile);
  GatherQueries(tile, scratch.q);
  // The last tile of rows is computed whole; what comes of the missing ones is dropped.
  const uint32_t padded_rows = (num_rows + kMaxTileRows - 1) / kMaxTileRows * kMaxTileRows;
  std::fill(scratch.q + static_cast<size_t>(num_rows) * dim, scratch.q + static_cast<size_t>(padded_rows) * dim, 0.0f);

  PrefillSplit decoded;
  for (uint32_t g = 0; g < kAttentionSplitSlots / kGranuleSlots; ++g) {
    decoded.k[g] = reinterpret_cast<const uint8_t*>(scratch.k + g * kGranuleSlots * dim);
    decoded.v[g] = reinterpret_cast<const uint8_t*>(scratch.v + g * kGranuleSlots * dim);
  }
  for (uint32_t split = tile.split_begin; split < tile.split_end; ++split) {
    const uint32_t num_slots = SlotsNeeded(tile, split);
    SplitGranules granules;
    LocateGranules(tile, split, num_slots, granules);
    decoded.split = split;
    decoded.values_are_finite = DecodeSplit<K, V>(granules, num_slots, dim, scratch.k, scratch.v);
    for (uint32_t row = 0; row < num_rows; row += kAttentionRowBlock) {
      RunPrefillBlock<kDim>(tile, scratch, decoded, row, c);
    }
  }
  if (tile.partials == nullptr) WriteRows(tile, scratch.states);
}
