// AttentionTile: one piece of attention work, as AttentionPlan (attention.h) cuts it and the kernels of a target run
// it.
//
// A tile is a range of tokens of one sequence with all query heads of one KV head, over a range of splits of
// kAttentionSplitSlots absolute positions. Its rows are (token, head) pairs, flattened:
//   row = (token - token_begin) * group_size + head.
// A tile that covers every split its rows see writes `out`. Otherwise each (split, row) leaves a partial result, and
// attention_merge folds those in the order of splits: the same additions that the whole tile would have made.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "kernels/kv_view.h"

namespace kvern {

struct AttentionTile {
  const KvView* kv = nullptr;
  const BlockIndex* block_table = nullptr;
  uint32_t layer = 0;
  uint32_t kv_head = 0;
  uint32_t group_size = 1;      // Query heads per KV head.
  uint32_t first_position = 0;  // Absolute position of the sequence's token 0 in this batch.
  uint32_t token_begin = 0, token_end = 0;
  uint32_t split_begin = 0, split_end = 0;  // Rows see a part of them only, as their positions allow.
  float scale = 1;
  // Rows of the sequence's token 0 at the first query head of the group: q[token * q_stride + head * head_dim + d].
  const float* q = nullptr;
  size_t q_stride = 0;
  float* out = nullptr;
  size_t out_stride = 0;
  // Decode path: K and V are read as they are stored. Else they are decoded once per tile (prefill path). Same bits.
  bool reads_stored = true;
  // [split][row][AttentionStateFloats]: where partial results go, counted from split 0. Null: writes `out`.
  float* partials = nullptr;
  uint8_t* scratch = nullptr;  // AttentionScratchBytes, 64-aligned, the worker's own.
  const AttentionTile* next =
      nullptr;  // What this worker runs next: the decode path fetches its K and V ahead. Or null.

  uint32_t num_rows() const { return (token_end - token_begin) * group_size; }
};

// A row's state: [0] the maximum (in units of log2), [16, 32) the sums of the 16 lanes, [32, 32 + head_dim) the output.
constexpr uint32_t AttentionStateFloats(uint32_t head_dim) { return 32 + head_dim; }

inline constexpr uint32_t kAttentionRowBlock = 48;  // Rows whose scores of one split stand in scratch at once.
inline constexpr uint32_t kAttentionScoreStride =
    kAttentionSplitSlots + 16;  // Not a power of two: fewer cache conflicts.

// Scratch of a tile of num_rows rows: queries and states of all rows (rounded up to a block), K and V of a split in
// f32, scores and outputs of a block of rows, the sums of their lanes.
constexpr size_t AttentionScratchBytes(uint32_t head_dim, uint32_t num_rows) {
  const size_t rows =
      (static_cast<size_t>(num_rows) + kAttentionRowBlock - 1) / kAttentionRowBlock * kAttentionRowBlock;
  const size_t dim = head_dim;
  return sizeof(float) * (rows * dim + rows * AttentionStateFloats(head_dim) + 2 * kAttentionSplitSlots * dim +
                          kAttentionRowBlock * (kAttentionScoreStride + dim + 32));
}

// Slots of the split [split * 256, + 256) that a token at `position` sees.
constexpr uint32_t VisibleSlots(uint32_t position, uint32_t split) {
  const uint64_t end = static_cast<uint64_t>(position) + 1, begin = static_cast<uint64_t>(split) * kAttentionSplitSlots;
  return end <= begin ? 0 : static_cast<uint32_t>(std::min<uint64_t>(end - begin, kAttentionSplitSlots));
}

}  // namespace kvern
