// KvCache: the memory of all sequences of one model, in one byte budget: a pool of blocks for each layer group.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "kvcache/block_pool.h"
#include "kvcache/placement/placement.h"
#include "kvern/stats.h"
#include "kvern/status.h"

namespace kvern {

// Blocks in each layer group.
using BlockCounts = std::array<uint64_t, kMaxLayerGroups>;

// a + b * times.
BlockCounts Sum(const BlockCounts& a, const BlockCounts& b, uint64_t times = 1);
// Whether no count of `a` is larger than that of `b`.
bool FitsInto(const BlockCounts& a, const BlockCounts& b);

struct KvGroup {
  BlockLayout layout;
  uint32_t window = 0;       // As AttentionSpan::window.
  bool sees_pinned = false;  // Its rows see the pinned positions as well.
  uint64_t num_blocks = 0;   // Of its pool.
};

// How keys and values are kept: worked out from options and a model before anything is allocated (engine/cache_plan.h).
struct KvCacheSpec {
  const Placement* placement = nullptr;
  std::vector<KvGroup> groups;        // 1 to kMaxLayerGroups.
  std::vector<PositionRange> pinned;  // As AttentionSpan::pinned.
  uint32_t max_step_tokens = 1;       // Most rows of one sequence in one step.

  // These point to `pinned`.
  AttentionSpan Span(size_t group) const;
  SequenceCourse Course(size_t group, uint64_t max_tokens) const;

  // What a sequence of up to `max_tokens` needs at the worst, and what of it forks have in common after `num_tokens`.
  BlockCounts MostBlocks(uint64_t max_tokens) const;
  BlockCounts SharedBlocks(uint64_t max_tokens, uint64_t num_tokens) const;
  BlockCounts PoolBlocks() const;
  // The largest 64-bit number where the bytes are more.
  uint64_t BytesOf(const BlockCounts& blocks) const;
};

class KvCache {
 public:
  // kResourceExhausted where a pool has not one block or the system has no such memory.
  static Result<std::unique_ptr<KvCache>> Create(KvCacheSpec spec, MemoryAllocator& allocator);

  const KvCacheSpec& spec() const { return spec_; }
  size_t num_groups() const { return pools_.size(); }
  BlockPool& pool(size_t group) { return *pools_[group]; }
  CacheStats Stats() const;
  // A number that no block of this cache has had in a BlockStore.
  uint64_t NextStoreId() { return next_store_id_++; }
  // Bytes of blocks that went to a BlockStore and came back, for the statistics.
  void CountSpilled(uint64_t num_bytes) { spilled_bytes_ += num_bytes; }
  void CountRestored(uint64_t num_bytes) { restored_bytes_ += num_bytes; }
  uint64_t spilled_bytes() const { return spilled_bytes_; }
  uint64_t restored_bytes() const { return restored_bytes_; }

 private:
  explicit KvCache(KvCacheSpec spec) : spec_(std::move(spec)) {}

  const KvCacheSpec spec_;
  CacheMeter meter_;
  std::vector<std::unique_ptr<BlockPool>> pools_;
  uint64_t next_store_id_ = 0;
  uint64_t spilled_bytes_ = 0;
  uint64_t restored_bytes_ = 0;
};

}  // namespace kvern
