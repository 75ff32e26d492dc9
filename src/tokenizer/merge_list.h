// The merge loop that BPE and SPM share: a heap of candidate pairs over a linked list of symbols, O(n log n).
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <vector>

#include "kvern/tokenizer.h"

namespace kvern {

inline constexpr uint32_t kNoMerge = UINT32_MAX;

// A piece of text that may still merge with its right neighbour. A symbol that was merged into its left one is dead: it
// keeps its place, its `key` is kNoMerge and no list entry points to it.
struct MergeSymbol {
  int32_t prev;    // -1 at the front.
  int32_t next;    // -1 at the end.
  uint32_t begin;  // In the text that is being encoded.
  uint32_t length;
  TokenId id;               // -1: this text is no token.
  int32_t split = -1;       // SPM: where the list of splits says what this symbol was merged from.
  uint32_t key = kNoMerge;  // Order of the merge with `next`, smallest first.
  TokenId merged = -1;      // Token of that merge.
};

// Merges until no neighbours merge: smallest key first, ties leftmost.
// `symbols`: linked front to back in order; the first one stays the first. `heap` is scratch.
// find(left, right, key, merged) -> bool says whether two neighbours merge, and into what.
// on_merge(left, right) is told of each merge before it happens; left.merged is the token it makes.
template <typename Find, typename OnMerge>
void RunMerges(std::vector<MergeSymbol>& symbols, std::vector<uint64_t>& heap, const Find& find,
               const OnMerge& on_merge) {
  // A heap entry is key << 32 | index of the left symbol. It is stale when that symbol's key has changed since.
  heap.clear();
  const auto consider = [&](int32_t left) {
    MergeSymbol& symbol = symbols[left];
    symbol.key = kNoMerge;
    if (symbol.next < 0) return false;
    return find(symbol, symbols[symbol.next], symbol.key, symbol.merged);
  };
  const auto entry = [&](int32_t left) {
    return (static_cast<uint64_t>(symbols[left].key) << 32) | static_cast<uint32_t>(left);
  };
  const auto push = [&](int32_t left) {
    if (!consider(left)) return;
    heap.push_back(entry(left));
    std::push_heap(heap.begin(), heap.end(), std::greater<>());
  };
  for (int32_t i = 0; i < static_cast<int32_t>(symbols.size()); ++i) {
    if (consider(i)) heap.push_back(entry(i));
  }
  std::make_heap(heap.begin(), heap.end(), std::greater<>());

  while (!heap.empty()) {
    std::pop_heap(heap.begin(), heap.end(), std::greater<>());
    const uint64_t top = heap.back();
    heap.pop_back();
    const auto at = static_cast<int32_t>(top & UINT32_MAX);
    MergeSymbol& left = symbols[at];
    if (left.key != static_cast<uint32_t>(top >> 32)) continue;
    MergeSymbol& right = symbols[left.next];
    on_merge(left, right);
    left.id = left.merged;
    left.length += right.length;
    left.next = right.next;
    right.key = kNoMerge;
    if (left.next >= 0) symbols[left.next].prev = at;
    push(at);
    if (left.prev >= 0) push(left.prev);
  }
}

}  // namespace kvern
