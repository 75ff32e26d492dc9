// PrefixIndex: which tokens stand in which cached blocks of one pool. An entry is a block with its key, the key of its
// parent (the block before it) and its tokens; it is found by its key, or by how it begins after its parent. A match of
// keys is not enough: tokens are compared, so a wrong key can never give a wrong answer.
//
// A block may hold fewer tokens than it has slots: the end of a sequence. No such entry is the beginning of a sibling:
// whoever comes later makes it superfluous.
// One entry per block at most, tokens stored once. Engine thread only; knows nothing of states and leases.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <span>
#include <unordered_map>
#include <vector>

#include "kvcache/block_key.h"

namespace kvern {

class PrefixIndex {
 public:
  struct Entry {
    BlockKey key;
    BlockKey parent;
    std::vector<TokenId> tokens;  // 1 to block_size; empty where the block is not in the index.
    BlockOwner owner = {};
    uint32_t num_hits = 0;  // As the caller counts them.
  };
  // The first `num_tokens` tokens of `block` are those asked for.
  struct Beginning {
    BlockIndex block;
    uint32_t num_tokens;
  };

  explicit PrefixIndex(uint32_t num_blocks) : entries_(num_blocks), siblings_(Less{&entries_}) {}
  PrefixIndex(const PrefixIndex&) = delete;
  PrefixIndex& operator=(const PrefixIndex&) = delete;

  // The block that holds exactly `tokens` under `key`.
  std::optional<BlockIndex> Find(const BlockKey& key, std::span<const TokenId> tokens) const;
  // Of the blocks after `parent`, one that has the longest beginning in common with `tokens`, where that is not empty.
  // O(log blocks), however many siblings there are.
  std::optional<Beginning> FindBeginning(const BlockKey& parent, std::span<const TokenId> tokens) const;
  // The same, where the block then goes on otherwise than `tokens`; num_tokens, here perhaps 0, is where. nullopt where
  // one of the two just ends.
  std::optional<Beginning> FindDivergence(const BlockKey& parent, std::span<const TokenId> tokens) const;
  // The sibling of `block` that its tokens go on from.
  std::optional<BlockIndex> FindSuperfluous(BlockIndex block) const;

  // Enters `block`, which must not be in the index. False, and no change, where the key is there already.
  bool Insert(BlockIndex block, const BlockKey& key, const BlockKey& parent, std::span<const TokenId> tokens,
              const BlockOwner& owner);
  void Remove(BlockIndex block);

  // Calls fn(BlockIndex) -> bool for the blocks whose parent is `key`, until it says true; returns whether it did.
  template <typename Fn>
  bool AnyChild(const BlockKey& key, Fn fn) const {
    for (auto it = siblings_.lower_bound(Probe{key, {}}); it != siblings_.end(); ++it) {
      if (entries_[*it].parent != key) return false;
      if (fn(*it)) return true;
    }
    return false;
  }

  bool Has(BlockIndex block) const { return !entries_[block].tokens.empty(); }
  bool HasKey(const BlockKey& key) const { return by_key_.contains(key); }
  const Entry& entry(BlockIndex block) const { return entries_[block]; }
  Entry& entry(BlockIndex block) { return entries_[block]; }
  uint64_t size() const { return by_key_.size(); }

 private:
  struct Probe {
    const BlockKey& parent;
    std::span<const TokenId> tokens;
  };
  // By parent, then by tokens: siblings with a common beginning stand next to each other.
  struct Less {
    using is_transparent = void;
    const std::vector<Entry>* entries;
    Probe Of(BlockIndex block) const { return {(*entries)[block].parent, (*entries)[block].tokens}; }
    Probe Of(const Probe& probe) const { return probe; }
    template <typename A, typename B>
    bool operator()(const A& a, const B& b) const {
      return IsBefore(Of(a), Of(b));
    }
  };
  static bool IsBefore(const Probe& a, const Probe& b);
  // The block after `parent` that has most in common with `tokens`, even nothing.
  std::optional<Beginning> FindMostAlike(const BlockKey& parent, std::span<const TokenId> tokens) const;

  std::vector<Entry> entries_;  // One per block of the pool.
  std::unordered_map<BlockKey, BlockIndex, BlockKeyHash> by_key_;
  std::set<BlockIndex, Less> siblings_;
};

}  // namespace kvern
