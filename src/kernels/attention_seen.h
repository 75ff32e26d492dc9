// Which granules of a split a tile of attention reads, and which of their slots each of its tokens sees.
//
// Only granules of which some token sees a slot are read, in the order of positions; their slots are numbered in that
// order. Pinned slots before the window come first. Where they are seen by queries of their own (tile.q_pinned), a
// granule in which they and the window meet stands in the list twice, once for each query:
//   split    | p p . . | . . . . | . w w w | w w w w |        p pinned, w in the window of some token, . seen by none
//   read     | p p . . | . w w w | w w w w |
//              q_pinned   q         q
// No sum notices: hidden slots weigh +0, the order of the others is that of positions, and a slot keeps its lane.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>

#include "kernels/attention_tile.h"

namespace kvern {

// Of one split.
struct SeenGranules {
  uint32_t count = 0;
  uint32_t num_slots = 0;              // Up to the last one that any token sees.
  uint32_t num_pinned = 0;             // The first granules: seen by q_pinned, for their pinned slots only.
  bool has_pinned = false;             // Some token sees pinned slots before its window.
  uint8_t number[kMaxSplitGranules];   // Of each within the split.
  uint16_t pinned[kMaxSplitGranules];  // Slots that are seen as pinned ones, where has_pinned.
};

// What one token sees of these granules.
struct SeenSlots {
  uint32_t begin = 0, end = 0;        // All within [begin, end); begin is a multiple of 16. Empty: none.
  bool has_gaps = false;              // Not all of [begin, end).
  uint16_t lanes[kMaxSplitGranules];  // Bit i is slot i of the granule; where has_gaps.

  bool IsSameRange(const SeenSlots& other) const {
    return begin == other.begin && end == other.end && !has_gaps && !other.has_gaps;
  }
};

// Bits begin .. end - 1.
constexpr uint32_t BitRange(uint32_t begin, uint32_t end) { return begin < end ? (1u << end) - (1u << begin) : 0; }

// Where `position` lies in [base, base + size), as an offset; positions outside are moved to its ends.
constexpr uint32_t OffsetWithin(uint64_t position, uint64_t base, uint32_t size) {
  return position <= base ? 0 : static_cast<uint32_t>(std::min<uint64_t>(position - base, size));
}

// Bit g: slots [begin, end) touch granule g of the split at `base`.
constexpr uint32_t GranulesTouched(uint64_t begin, uint64_t end, uint64_t base) {
  const uint32_t first = OffsetWithin(begin, base, kAttentionSplitSlots);
  const uint32_t last = OffsetWithin(end, base, kAttentionSplitSlots);
  return first < last ? BitRange(first / kGranuleSlots, (last + kGranuleSlots - 1) / kGranuleSlots) : 0;
}

// Bit i: slot i of the granule at `base` is in [begin, end).
constexpr uint32_t LanesWithin(uint64_t begin, uint64_t end, uint64_t base) {
  return BitRange(OffsetWithin(begin, base, kGranuleSlots), OffsetWithin(end, base, kGranuleSlots));
}

// Appends the granules whose bits are set.
inline void AppendGranules(uint32_t bits, SeenGranules& seen) {
  for (; bits != 0; bits &= bits - 1) seen.number[seen.count++] = static_cast<uint8_t>(std::countr_zero(bits));
}

// The slots of each listed granule that are seen as pinned ones.
inline void FindPinnedSlots(const AttentionTile& tile, uint64_t base, SeenGranules& seen) {
  for (uint32_t g = 0; g < seen.count; ++g) {
    seen.pinned[g] = 0;
    if (tile.q_pinned != nullptr && g >= seen.num_pinned) continue;
    for (const PositionRange& range : tile.span.pinned) {
      const uint32_t lanes = LanesWithin(range.begin, range.end, base + seen.number[g] * kGranuleSlots);
      seen.pinned[g] = static_cast<uint16_t>(seen.pinned[g] | lanes);
    }
  }
}

// What any token of the tile sees of `split`.
inline void FindSeenByTile(const AttentionTile& tile, uint32_t split, SeenGranules& seen) {
  const uint64_t base = static_cast<uint64_t>(split) * kAttentionSplitSlots;
  const AttentionToken& first = tile.tokens[0];
  const AttentionToken& last = tile.tokens[tile.num_tokens - 1];
  const uint64_t end = static_cast<uint64_t>(last.position) + 1;
  const uint32_t window = GranulesTouched(first.window_begin, end, base);
  uint32_t pinned = 0;
  for (const PositionRange& range : tile.span.pinned) {
    pinned |= GranulesTouched(range.begin, std::min(range.end, last.window_begin), base);
  }

  seen.count = seen.num_pinned = seen.num_slots = 0;
  seen.has_pinned = pinned != 0;
  if (!seen.has_pinned && (window & 1) != 0) {  // The split from its beginning, as without a window.
    seen.count = static_cast<uint32_t>(std::bit_width(window));
    for (uint32_t g = 0; g < kAttentionSplitSlots / kGranuleSlots; ++g) seen.number[g] = static_cast<uint8_t>(g);
  } else if (tile.q_pinned == nullptr) {
    AppendGranules(window | pinned, seen);
  } else {
    AppendGranules(pinned, seen);
    seen.num_pinned = seen.count;
    AppendGranules(window, seen);
  }
  if (seen.count == 0) return;
  const uint64_t last_base = base + seen.number[seen.count - 1] * kGranuleSlots;
  seen.num_slots = (seen.count - 1) * kGranuleSlots + OffsetWithin(end, last_base, kGranuleSlots);
  if (seen.has_pinned) FindPinnedSlots(tile, base, seen);
}

// What `token` of the tile sees of `split`, of which the tile reads `granules`.
inline SeenSlots SeenByToken(const SeenGranules& granules, const AttentionToken& token, uint32_t split) {
  const uint64_t base = static_cast<uint64_t>(split) * kAttentionSplitSlots;
  SeenSlots seen;
  if (!granules.has_pinned && token.window_begin <= base) {  // The split from its beginning, as without a window.
    seen.end = VisibleSlots(token.position, split);
    return seen;
  }
  bool is_empty = true;
  for (uint32_t g = 0; g < granules.count; ++g) {
    const uint64_t granule_base = base + granules.number[g] * kGranuleSlots;
    uint32_t lanes = 0;
    if (g >= granules.num_pinned) {
      lanes = LanesWithin(token.window_begin, static_cast<uint64_t>(token.position) + 1, granule_base);
    }
    if (granules.has_pinned) lanes |= granules.pinned[g] & LanesWithin(0, token.window_begin, granule_base);
    seen.lanes[g] = static_cast<uint16_t>(lanes);
    if (lanes == 0) continue;
    if (is_empty) seen.begin = g * kGranuleSlots;
    is_empty = false;
    seen.end = g * kGranuleSlots + static_cast<uint32_t>(std::bit_width(lanes));
  }
  for (uint32_t slot = seen.begin; slot < seen.end; slot += kGranuleSlots) {
    seen.has_gaps |= seen.lanes[slot / kGranuleSlots] != BitRange(0, std::min(seen.end - slot, kGranuleSlots));
  }
  return seen;
}

}  // namespace kvern
