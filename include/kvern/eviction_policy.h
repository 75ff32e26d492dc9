// EvictionPolicy: which cached blocks leave first when others need their memory. The interface is public so that a
// policy can be measured on its own (bench/replay).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace kvern {

using BlockIndex = uint32_t;  // Position of a block in its pool.

// What a policy may know of a block that nobody leases.
struct BlockInfo {
  // Sequences that have found it in the cache, or had to compute it again because it had been evicted not long before.
  uint32_t num_hits = 0;
  // It is behind the window of the sequence that computed it and has never been hit: of use only to one that begins
  // alike and ends earlier. Such blocks leave before all others.
  bool leaves_first = false;
};

// An EvictionPolicy ranks the blocks of one pool by how soon they should leave it. It is told what happened and asked
// for victims; it never touches block memory. Of a chain of blocks that are let go together, the last comes first.
// All calls come from the engine thread, so implementations take no locks. Every call is O(1) per block.
class EvictionPolicy {
 public:
  virtual ~EvictionPolicy() = default;

  // Stable id used in options, metrics and benchmark rows: "lru", "slru".
  virtual std::string_view Name() const = 0;

  // `block` is idle: full, cached and used by no sequence. It may be picked from now on.
  virtual void OnEvictable(BlockIndex block, const BlockInfo& info) = 0;
  // `block` was hit again: it may not be picked until the next OnEvictable.
  virtual void OnReused(BlockIndex block) = 0;
  // `block` has left the pool, idle or not. Forget it.
  virtual void OnRemoved(BlockIndex block) = 0;

  // Appends at most `count` evictable blocks to `victims`, first to leave first; fewer only where there are no more.
  // Picking removes nothing: OnRemoved follows for each block that really leaves, which need not be the ones picked.
  virtual void PickVictims(size_t count, std::vector<BlockIndex>& victims) = 0;
};

// The names of all of them, the default first.
std::vector<std::string> EvictionPolicyNames();

// For a pool of `num_blocks` blocks.
// Evicts the block unused for longest.
std::unique_ptr<EvictionPolicy> MakeLruPolicy(uint32_t num_blocks);
// Evicts the block unused for longest among those that were never hit, so that prompts which come once do not drive
// out what many share; a share of the pool is kept for blocks that were.
std::unique_ptr<EvictionPolicy> MakeSlruPolicy(uint32_t num_blocks);

}  // namespace kvern
