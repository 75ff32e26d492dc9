// AttentionTile: one piece of attention work, as AttentionPlan (attention.h) cuts it and the kernels of a target run
// it.
//
// A tile is some tokens of the batch with all query heads of one KV head, over some splits of kAttentionSplitSlots
// absolute positions. All of its tokens find those splits in the same blocks: they are tokens of one sequence, or of
// sequences that share a prefix. Its rows are (token, head) pairs, flattened:
//   row = token * group_size + head.
// Splits of which none of these tokens sees a slot are left out: a tile's splits are counted among those that are
// visited, so that neither work nor memory grows with the position where a window moves along.
// A tile that covers every split its rows see writes `out`. Otherwise it leaves partial results, which attention_merge
// folds in the order of splits: the same additions that the whole tile would have made.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "kernels/kv_view.h"

namespace kvern {

// A token of a tile.
struct AttentionToken {
  uint32_t row;           // In q and out.
  uint32_t position;      // Absolute. It sees the slots window_begin .. position, and the pinned ones before them.
  uint32_t window_begin;  // 0 without a window.
  uint32_t first_split;   // The first split of which it sees a slot.
  size_t partials;        // Offset of its partial results in floats: [visited split][query head][AttentionStateFloats].
};

struct AttentionTile {
  const KvView* kv = nullptr;
  const BlockIndex* block_table = nullptr;  // Of any of the tile's sequences.
  uint32_t layer = 0;
  uint32_t kv_head = 0;
  uint32_t group_size = 1;  // Query heads per KV head.
  AttentionSpan span = {};
  // [num_tokens], >= 1. With a window: consecutive ones of a sequence. Without: each sees as much of the tile's splits
  // as the one before it, or more.
  const AttentionToken* tokens = nullptr;
  uint32_t num_tokens = 0;
  // Splits that its tokens visit, ascending; the tile's are splits[split_begin] .. splits[split_end - 1].
  const uint32_t* splits = nullptr;
  uint32_t split_begin = 0, split_end = 0;
  float scale = 1;
  // Row 0 of the batch at the first query head of the group: q[row * q_stride + head * head_dim + d].
  const float* q = nullptr;
  // The queries for pinned slots where these are rotated apart, that is where all tokens are beyond
  // span.PinnedQueryPosition(); null where none is, and q serves all slots.
  const float* q_pinned = nullptr;
  size_t q_stride = 0;
  float* out = nullptr;
  size_t out_stride = 0;
  // Decode path: K and V are read as they are stored. Else they are decoded once per tile (prefill path). Same bits.
  bool reads_stored = true;
  // Where partial results go, at the first query head of the group; null: the tile writes `out`. Splits leave one each,
  // but a tile that begins with the first visited split folds all of its own into that of its last.
  float* partials = nullptr;
  uint8_t* scratch = nullptr;  // AttentionScratchBytes, 64-aligned, the worker's own.
  // What this worker runs next: its first K and V are fetched ahead. Or null.
  const AttentionTile* next = nullptr;

  uint32_t num_rows() const { return num_tokens * group_size; }
};

// A row's state: [0] the maximum (in units of log2), [16, 32) the sums of the 16 lanes, [32, 32 + head_dim) the output.
constexpr uint32_t AttentionStateFloats(uint32_t head_dim) { return 32 + head_dim; }

inline constexpr uint32_t kAttentionRowBlock = 48;  // Rows whose scores of one split stand in scratch at once.
inline constexpr uint32_t kAttentionScoreStride =
    kAttentionSplitSlots + 16;  // Not a power of two: fewer cache conflicts.

// Granules of a split that may be read: its sixteen, and one of them twice, where pinned slots and a window that is
// seen by other queries meet in it.
inline constexpr uint32_t kMaxSplitGranules = kAttentionSplitSlots / kGranuleSlots + 1;
inline constexpr uint32_t kMaxReadSlots = kMaxSplitGranules * kGranuleSlots;
static_assert(kMaxReadSlots <= kAttentionScoreStride);

// Scratch of a tile of num_rows rows: queries (of both kinds, where pinned slots have theirs) and states of all rows
// (rounded up to a block), K and V of a split in f32, scores and outputs of a block of rows, the sums of their lanes.
constexpr size_t AttentionScratchBytes(uint32_t head_dim, uint32_t num_rows, bool has_pinned) {
  const size_t rows =
      (static_cast<size_t>(num_rows) + kAttentionRowBlock - 1) / kAttentionRowBlock * kAttentionRowBlock;
  const size_t dim = head_dim;
  return sizeof(float) * ((has_pinned ? 2 : 1) * rows * dim + rows * AttentionStateFloats(head_dim) +
                          2 * kMaxReadSlots * dim + kAttentionRowBlock * (kAttentionScoreStride + dim + 32));
}

// Slots of the split [split * 256, + 256) that a token at `position` sees.
constexpr uint32_t VisibleSlots(uint32_t position, uint32_t split) {
  const uint64_t end = static_cast<uint64_t>(position) + 1, begin = static_cast<uint64_t>(split) * kAttentionSplitSlots;
  return end <= begin ? 0 : static_cast<uint32_t>(std::min<uint64_t>(end - begin, kAttentionSplitSlots));
}

// How many slots of a split a token sees under `span`.
inline uint64_t SlotsSeenOfSplit(const AttentionSpan& span, uint32_t position, uint32_t split) {
  const uint64_t begin = static_cast<uint64_t>(split) * kAttentionSplitSlots;
  return span.SlotsSeen(position, begin, begin + kAttentionSplitSlots);
}

// The query-key products that the mask selects in a tile.
inline uint64_t ProductsOfTile(const AttentionTile& tile) {
  uint64_t num_slots = 0;
  const auto border = [](uint32_t split) { return static_cast<uint64_t>(split) * kAttentionSplitSlots; };
  for (uint32_t t = 0; t < tile.num_tokens; ++t) {
    const uint32_t position = tile.tokens[t].position;
    if (tile.span.window == 0) {  // Its splits have no gaps.
      num_slots += tile.span.SlotsSeen(position, border(tile.splits[tile.split_begin]),
                                       border(tile.splits[tile.split_end - 1] + 1));
      continue;
    }
    for (uint32_t index = tile.split_begin; index < tile.split_end; ++index) {
      num_slots += SlotsSeenOfSplit(tile.span, position, tile.splits[index]);
    }
  }
  return num_slots * tile.group_size;
}

}  // namespace kvern
