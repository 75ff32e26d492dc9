// GroupCache: the cached blocks of one layer group: its pool's kept blocks, how they are found, and which leave first.
//
// Whoever is in the index is kept by the pool, and the other way round. The policy ranks the idle ones; where rows see
// all tokens, a block is of no use without those before it, so the tree has the last word: instead of a block, the idle
// blocks that come after it leave first. Engine thread only.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "kvcache/block_pool.h"
#include "kvcache/ghost_list.h"
#include "kvcache/prefix_index.h"
#include "kvern/eviction_policy.h"

namespace kvern {

class GroupCache final : public IdleObserver {
 public:
  // Of the blocks of `pool`, which must outlive it and tells it what becomes idle. sees_all: rows see all tokens.
  GroupCache(BlockPool& pool, bool sees_all, std::unique_ptr<EvictionPolicy> policy);
  ~GroupCache() override;  // Everything cached becomes free, or will be once its leases end.

  // Enters `block` (full) with its first tokens. False where that adds nothing: the same tokens, or more after the same
  // ones, are there already. The end of a sequence that `block` goes on from leaves the index where it is idle.
  bool Publish(BlockIndex block, const BlockKey& key, const BlockKey& parent, std::span<const TokenId> tokens,
               const BlockOwner& owner);
  // A sequence begins with `block`.
  void CountHit(BlockIndex block) { ++index_.entry(block).num_hits; }
  // Evicts idle blocks until `num_free` blocks of the pool are free or none is idle. Returns how many are free then.
  uint64_t MakeRoom(uint64_t num_free);
  // Takes the blocks of one salt, or of all, out of the index: idle ones become free. Returns how many those are.
  uint64_t Clear(std::optional<uint32_t> salt);

  // While true, blocks that become idle are behind the window of their sequence.
  void SetDropping(bool is_dropping) { is_dropping_ = is_dropping; }

  const PrefixIndex& index() const { return index_; }
  const GhostList& ghosts() const { return ghosts_; }
  BlockPool& pool() { return pool_; }
  const BlockPool& pool() const { return pool_; }
  bool sees_all() const { return sees_all_; }
  uint64_t num_evicted() const { return num_evicted_; }

  void OnIdle(BlockIndex block) override;
  void OnLeasedAgain(BlockIndex block) override { policy_->OnReused(block); }

 private:
  // `block` (idle), or the end of a chain of idle blocks after it.
  BlockIndex LeafAfter(BlockIndex block) const;
  // Takes `block` (full or idle) out of the index.
  void Forget(BlockIndex block);

  BlockPool& pool_;
  const bool sees_all_;
  const std::unique_ptr<EvictionPolicy> policy_;
  PrefixIndex index_;
  GhostList ghosts_;
  std::vector<BlockIndex> victims_;
  bool is_dropping_ = false;
  uint64_t num_evicted_ = 0;
};

}  // namespace kvern
