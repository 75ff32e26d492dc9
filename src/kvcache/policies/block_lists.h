// BlockLists: a few doubly linked lists over the blocks of a pool, each block in at most one of them. What policies
// are made of: every call is O(1), nothing is allocated after construction.
#pragma once

#include <cstdint>
#include <vector>

#include "base/check.h"
#include "kvern/eviction_policy.h"

namespace kvern {

class BlockLists {
 public:
  static constexpr BlockIndex kNone = ~BlockIndex{0};
  static constexpr uint8_t kNoList = 255;

  BlockLists(uint32_t num_blocks, uint8_t num_lists) : nodes_(num_blocks), lists_(num_lists) {}

  // The list that `block` is in, or kNoList.
  uint8_t ListOf(BlockIndex block) const { return nodes_[block].list; }
  uint64_t size(uint8_t list) const { return lists_[list].size; }
  BlockIndex Front(uint8_t list) const { return lists_[list].front; }
  BlockIndex Next(BlockIndex block) const { return nodes_[block].next; }

  void PushBack(uint8_t list, BlockIndex block) {
    KVERN_CHECK(block < nodes_.size() && nodes_[block].list == kNoList);
    List& l = lists_[list];
    nodes_[block] = {l.back, kNone, list};
    (l.back == kNone ? l.front : nodes_[l.back].next) = block;
    l.back = block;
    ++l.size;
  }
  // Nothing happens where `block` is in no list.
  void Remove(BlockIndex block) {
    KVERN_CHECK(block < nodes_.size());
    Node& node = nodes_[block];
    if (node.list == kNoList) return;
    List& l = lists_[node.list];
    (node.previous == kNone ? l.front : nodes_[node.previous].next) = node.next;
    (node.next == kNone ? l.back : nodes_[node.next].previous) = node.previous;
    --l.size;
    node = {};
  }
  // Appends up to `count` blocks of `list` to `out`, from its front on. Returns how many of `count` are left to find.
  size_t TakeFrom(uint8_t list, size_t count, std::vector<BlockIndex>& out) const {
    for (BlockIndex block = Front(list); block != kNone && count > 0; block = Next(block), --count) {
      out.push_back(block);
    }
    return count;
  }

 private:
  struct Node {
    BlockIndex previous = kNone, next = kNone;
    uint8_t list = kNoList;
  };
  struct List {
    BlockIndex front = kNone, back = kNone;
    uint64_t size = 0;
  };

  std::vector<Node> nodes_;
  std::vector<List> lists_;
};

}  // namespace kvern
