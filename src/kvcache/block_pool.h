// BlockPool: the memory of the KV cache, in blocks of equal size, inside a byte budget that never grows.
//
// Life of a block:   free -> filling -> full -> free
//   free     nobody's; may hold anything.
//   filling  leased by one sequence, which still writes slots into it.
//   full     leased by one sequence or several; every slot is computed, the bytes do not change any more.
// A block returns to free when its last lease ends. free + filling + full = total, checked in debug builds after every
// move.
// Only the pool changes a state. All calls come from the engine thread, so it takes no locks.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/aligned_buffer.h"
#include "kvcache/block_layout.h"
#include "kvern/stats.h"
#include "kvern/status.h"

namespace kvern {

enum class BlockState : uint8_t { kFree, kFilling, kFull };

class BlockPool;

// Holds blocks for one sequence, in order. Dropping it gives them back; forgetting is impossible. Must not outlive its
// pool.
class BlockLease {
 public:
  BlockLease() = default;  // Of nothing.
  BlockLease(BlockLease&& other) noexcept;
  BlockLease& operator=(BlockLease&& other) noexcept;
  ~BlockLease();

  std::span<const BlockIndex> blocks() const { return blocks_; }
  // Appends the blocks of `other`, which must come from the same pool; `other` is then of nothing.
  void Append(BlockLease other);
  // Gives everything back now.
  void Release();

 private:
  friend class BlockPool;
  BlockPool* pool_ = nullptr;
  std::vector<BlockIndex> blocks_;
};

class BlockPool {
 public:
  // As many blocks as fit into `budget_bytes`. kResourceExhausted where that is not even one (says how many bytes one
  // needs) or the system has no such memory. Nothing is allocated before the budget is checked.
  static Result<std::unique_ptr<BlockPool>> Create(const BlockLayout& layout, uint64_t budget_bytes,
                                                   MemoryAllocator& allocator);
  ~BlockPool();  // Every lease must have ended (KVERN_CHECK).

  // `count` free blocks, now filling; nullopt (and no change) where fewer are free.
  std::optional<BlockLease> Lease(uint32_t count);
  // One more lease on each of `blocks`, which must be full: their bytes are shared, nothing is copied.
  BlockLease Share(std::span<const BlockIndex> blocks);
  // Copies the bytes of `from` (leased) into `to` (filling).
  void Copy(BlockIndex from, BlockIndex to);
  // `block` (filling) has all its slots computed.
  void MarkFull(BlockIndex block);
  // `block` (full, one lease) will be written again: the uncached path recomputes what it holds.
  void MarkFilling(BlockIndex block);

  BlockState state(BlockIndex block) const;
  uint32_t num_leases(BlockIndex block) const;
  CacheStats Stats() const;
  uint64_t total_blocks() const { return states_.size(); }
  uint64_t free_blocks() const { return free_.size(); }
  const BlockLayout& layout() const { return layout_; }
  KvView view() { return layout_.View(memory_.data()); }

 private:
  friend class BlockLease;
  BlockPool(const BlockLayout& layout, AlignedBuffer memory, uint32_t num_blocks);

  // The end of a lease: those of `blocks` (filling or full) that have no other become free.
  void Return(std::span<const BlockIndex> blocks);
  void CheckInvariant() const;

  BlockLayout layout_;
  AlignedBuffer memory_;
  std::vector<BlockState> states_;    // One per block.
  std::vector<uint32_t> num_leases_;  // One per block: 0 where free, 1 where filling, 1 or more where full.
  std::vector<BlockIndex> free_;      // A stack: the block that became free last is leased first.
  uint64_t num_filling_ = 0;
  uint64_t num_full_ = 0;
  uint64_t peak_used_ = 0;
};

}  // namespace kvern
