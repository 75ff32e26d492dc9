// How kernels see the KV cache: plain pointers and strides, filled in by whoever owns the memory. No kernel knows a
// pool.
//
// A block holds `block_size` slots (a multiple of 16) of every layer of its group as one contiguous byte range:
//   block = [layer][kv head] { K granules, V granules, scales of each granule }.
// A granule is 16 slots; kv_codec.h has its bytes. Those of f32 and f16 are K as [dim][slot % 16], V as [slot][dim].
// A granule never crosses a block border, so attention walks granules and looks a block up once per granule at most.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "kernels/kv_codec.h"
#include "kvern/options.h"

namespace kvern {

inline constexpr uint32_t kAttentionSplitSlots = 256;  // Fixed splits by absolute position (docs/numerics.md).

inline constexpr uint32_t kMaxLayerGroups = 2;  // Layers that see the same span share their block tables.

using BlockIndex = uint32_t;  // Position of a block in its pool.

// K and V of all layers of one layer group, over all blocks of a pool.
struct KvView {
  uint8_t* base = nullptr;  // Block 0.
  size_t block_stride = 0;  // Bytes from a block to the next.
  size_t layer_stride = 0;  // Bytes from a layer to the next inside a block.
  size_t head_stride = 0;   // Bytes from a KV head to the next inside a layer.
  size_t v_offset = 0;      // Bytes from a head's K to its V,
  size_t scale_offset = 0;  // and to its scales.
  uint32_t block_size = 0;  // Slots per block.
  uint32_t num_kv_heads = 0;
  uint32_t head_dim = 0;  // A multiple of 16.
  KvType k_type = KvType::kF16;
  KvType v_type = KvType::kF16;
  // [layer][num_kv_heads][head_dim], or null: taken from keys before they are encoded. Scores do not get it back: it
  // adds the same to all of a row, which softmax does not see.
  const float* key_centres = nullptr;

  // Of a layer; null where there are none.
  const float* KeyCentres(uint32_t layer) const {
    return key_centres == nullptr ? nullptr : key_centres + size_t{layer} * num_kv_heads * head_dim;
  }
  uint8_t* HeadK(BlockIndex block, uint32_t layer, uint32_t kv_head) const {
    return base + block * block_stride + layer * layer_stride + kv_head * head_stride;
  }
  uint8_t* HeadV(BlockIndex block, uint32_t layer, uint32_t kv_head) const {
    return HeadK(block, layer, kv_head) + v_offset;
  }
  uint8_t* HeadScales(BlockIndex block, uint32_t layer, uint32_t kv_head) const {
    return HeadK(block, layer, kv_head) + scale_offset;
  }
  // Fills in what is inside a layer, from block_size, num_kv_heads, head_dim and the types; returns the layer's bytes.
  size_t LayOutHeads() {
    const size_t num_granules = block_size / kGranuleSlots;
    v_offset = num_granules * KvGranuleBytes(k_type, head_dim);
    scale_offset = v_offset + num_granules * KvGranuleBytes(v_type, head_dim);
    head_stride = num_granules * KvHeadGranuleBytes(k_type, v_type, head_dim);
    return head_stride * num_kv_heads;
  }
};

// Positions [begin, end).
struct PositionRange {
  uint32_t begin = 0, end = 0;
};

// How many positions two ranges [begin, end) have in common.
constexpr uint64_t CommonPositions(uint64_t begin, uint64_t end, uint64_t other_begin, uint64_t other_end) {
  const uint64_t first = std::max(begin, other_begin), last = std::min(end, other_end);
  return first < last ? last - first : 0;
}

// What the rows of a layer group see: the row at position p sees the slots at most p that are pinned or among the last
// `window` up to p itself. Pinned positions (attention sinks, global tokens) are seen under a second rotation of the
// query, by min(p, PinnedQueryPosition): a row never sees anything from further away than a model was trained for.
struct AttentionSpan {
  uint32_t window = 0;                         // In tokens, the row's own included; 0: all.
  std::span<const PositionRange> pinned = {};  // Ascending, disjoint, none empty; empty where window is 0.

  uint32_t PinnedEnd() const { return pinned.empty() ? 0 : pinned.back().end; }
  // The position by which queries beyond it are rotated for pinned slots: the last one at which the window reaches all
  // the way to the last pinned slot. For rows beyond it, all pinned slots lie before the window.
  uint32_t PinnedQueryPosition() const {
    return static_cast<uint32_t>(std::min<uint64_t>(uint64_t{PinnedEnd()} + window - 1, UINT32_MAX));
  }
  // The first slot that the row at `position` sees whether pinned or not.
  uint32_t WindowBegin(uint32_t position) const { return window == 0 || position < window ? 0 : position - window + 1; }
  // How many of the slots [begin, end) the row at `position` sees: the query-key products that a head needs.
  uint64_t SlotsSeen(uint32_t position, uint64_t begin = 0, uint64_t end = UINT64_MAX) const {
    const uint32_t window_begin = WindowBegin(position);
    uint64_t num_slots = CommonPositions(window_begin, uint64_t{position} + 1, begin, end);
    for (const PositionRange& range : pinned) {
      num_slots += CommonPositions(range.begin, std::min(range.end, window_begin), begin, end);
    }
    return num_slots;
  }
};

// Consecutive rows of a batch that belong to one sequence: row first_row + i is the token at position first_position +
// i.
struct SequenceRows {
  uint32_t first_row = 0;
  uint32_t num_rows = 0;
  uint32_t first_position = 0;
  // The sequence's blocks in each layer group, in order; each covers positions 0 .. first_position + num_rows - 1.
  // Entries of blocks of which no row of this step sees a slot are never looked up.
  std::array<std::span<const BlockIndex>, kMaxLayerGroups> block_tables = {};
};

// Consecutive sequences of a batch whose block tables begin with the same blocks: attention reads the K and V of what
// they share once for all of them. A hint about cost only: no bit of a result and no count depends on it.
struct SharedPrefix {
  uint32_t first_sequence = 0;  // Index into the batch's sequences. The ranges of two prefixes do not overlap.
  uint32_t num_sequences = 0;
  // Leading slots that stand in the same blocks for all of them and were computed before this step. Whole splits of
  // kAttentionSplitSlots are read together; what is left of the prefix is read for each sequence.
  uint32_t num_tokens = 0;
};

}  // namespace kvern
