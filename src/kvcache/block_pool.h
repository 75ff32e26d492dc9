// BlockPool: the memory of the KV cache, in blocks of equal size, inside a byte budget that never grows.
//
// Life of a block:   free -> filling -> full -> free, or where it is kept: full -> idle -> full again or free
//   free     nobody's; may hold anything.
//   filling  leased by one sequence, which still writes slots into it.
//   full     leased by one sequence or several; the bytes do not change any more.
//   idle     leased by nobody, kept because its bytes can be found again (kvcache/prefix_index.h).
// When its last lease ends, a block becomes idle where it is kept, else free; only Evict makes an idle one free.
// free + filling + full + idle = total, checked in debug builds after every move.
// Only the pool changes a state. All calls come from the engine thread, so it takes no locks.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/aligned_buffer.h"
#include "kvcache/block_layout.h"
#include "kvcache/free_runs.h"
#include "kvern/stats.h"
#include "kvern/status.h"

namespace kvern {

enum class BlockState : uint8_t { kFree, kFilling, kFull, kIdle };

// Stands in a block table where the block has been given back. No kernel looks such an entry up.
inline constexpr BlockIndex kNoBlock = ~BlockIndex{0};

class BlockPool;

// Learns which blocks become idle and which of those are leased again. It may not call the pool from here.
class IdleObserver {
 public:
  virtual ~IdleObserver() = default;
  virtual void OnIdle(BlockIndex block) = 0;
  virtual void OnLeasedAgain(BlockIndex block) = 0;
};

// Holds blocks for one sequence, in order; kNoBlock where one has been given back before the others. Dropping it gives
// them back; forgetting is impossible. Must not outlive its pool.
class BlockLease {
 public:
  BlockLease() = default;  // Of nothing.
  BlockLease(BlockLease&& other) noexcept;
  BlockLease& operator=(BlockLease&& other) noexcept;
  ~BlockLease();

  std::span<const BlockIndex> blocks() const { return blocks_; }
  // Appends the blocks of `other`, which must come from the same pool; `other` is then of nothing.
  void Append(BlockLease other);
  // Appends an entry that holds nothing.
  void AppendNone() { blocks_.push_back(kNoBlock); }
  // Gives entry `i` back; kNoBlock stands in its place.
  void Drop(size_t i);
  // Puts the one block of `other` in the place of entry `i`, which is given back.
  void Replace(size_t i, BlockLease other);
  // Gives back the entries from `size` on.
  void Shrink(size_t size);
  // Gives everything back now.
  void Release();
  // Blocks held: the entries that are not kNoBlock.
  uint64_t num_held() const { return num_held_; }

 private:
  friend class BlockPool;
  BlockPool* pool_ = nullptr;
  std::vector<BlockIndex> blocks_;
  uint64_t num_held_ = 0;
};

// Bytes of leased blocks (idle ones are not), over all pools of a budget.
struct CacheMeter {
  uint64_t used_bytes = 0;
  uint64_t peak_used_bytes = 0;
  uint64_t copied_bytes = 0;  // By BlockPool::Copy.
};

class BlockPool {
 public:
  // As many blocks as fit into `budget_bytes`. kResourceExhausted where that is not even one (says how many bytes one
  // needs) or the system has no such memory. Nothing is allocated before the budget is checked.
  // `meter`, where given, counts this pool's bytes too and must outlive it.
  static Result<std::unique_ptr<BlockPool>> Create(const BlockLayout& layout, uint64_t budget_bytes,
                                                   MemoryAllocator& allocator, CacheMeter* meter = nullptr);
  ~BlockPool();  // Every lease must have ended (KVERN_CHECK).

  // `count` free blocks, now filling; nullopt (and no change) where fewer are free. As many of them as can are
  // neighbours: first those behind `after`, the last block of the sequence, where it has one; then those from the start
  // of a free extent (kExtentSlots) on, so that the sequence and its neighbours can grow; then what is left between.
  std::optional<BlockLease> Lease(uint32_t count, BlockIndex after = kNoBlock);
  // The same, all of them neighbours; nullopt where no free run is that long.
  std::optional<BlockLease> LeaseRun(uint32_t count);
  // One more lease on each of `blocks`, which must be full or idle and are full then: their bytes are shared, nothing
  // is copied. kNoBlock stays.
  BlockLease Share(std::span<const BlockIndex> blocks);
  // Copies the bytes of `from` (not free) into `to` (filling).
  void Copy(BlockIndex from, BlockIndex to);
  // `block` (filling) has all its slots computed.
  void MarkFull(BlockIndex block);
  // `block` (full, one lease, not kept) will be written again: the uncached path recomputes what it holds.
  void MarkFilling(BlockIndex block);

  // `block` (full) becomes idle, and not free, when its last lease ends.
  void Keep(BlockIndex block);
  // `block` (full and kept) is kept no longer.
  void StopKeeping(BlockIndex block);
  // `block` (idle) becomes free. The caller sees to it that nobody finds it any more.
  void Evict(BlockIndex block);
  bool is_kept(BlockIndex block) const { return is_kept_[block] != 0; }
  // Whether its one holder may write to `block` again: nobody else reads it or could find it.
  bool IsOwn(BlockIndex block) const { return num_leases_[block] == 1 && !is_kept(block); }
  // `observer` must outlive the pool or be taken away with nullptr.
  void SetIdleObserver(IdleObserver* observer) { observer_ = observer; }

  BlockState state(BlockIndex block) const;
  uint32_t num_leases(BlockIndex block) const;
  // Peak and copied bytes are those of the meter.
  CacheStats Stats() const;
  uint64_t total_blocks() const { return states_.size(); }
  uint64_t free_blocks() const { return free_.num_free(); }
  uint64_t idle_blocks() const { return num_idle_; }
  uint8_t* BlockBytes(BlockIndex block);                                    // layout().block_bytes() of them.
  std::span<uint8_t> memory() { return {memory_.data(), memory_.size()}; }  // Of all blocks.
  const BlockLayout& layout() const { return layout_; }
  KvView view();
  // KvView::key_centres of this pool; before any block is written.
  void SetKeyCentres(std::vector<float> centres);

 private:
  friend class BlockLease;
  // Slots of neighbouring blocks that read as fast as one large block.
  static constexpr uint32_t kExtentSlots = 256;

  BlockPool(const BlockLayout& layout, AlignedBuffer memory, uint32_t num_blocks, CacheMeter* meter);

  // Where `count` blocks, or as many of them as one place has, are best taken. Some block must be free.
  BlockRun ChoosePlace(uint32_t count) const;
  // Takes `run` out of the free ones and appends it to `lease`.
  void TakeInto(BlockRun run, BlockLease& lease);
  void LeaseIdle(BlockIndex block);
  // `num_blocks` have just been counted as filling or full.
  void CountUsed(uint64_t num_blocks);
  // The end of a lease: those of `blocks` (filling or full) that have no other become idle or free, the last one first:
  // of a chain of idle blocks, the end should be the first to leave.
  void Return(std::span<const BlockIndex> blocks);
  void CheckInvariant() const;

  BlockLayout layout_;
  AlignedBuffer memory_;
  std::vector<BlockState> states_;    // One per block.
  std::vector<uint32_t> num_leases_;  // One per block: 0 where free or idle, 1 where filling, 1 or more where full.
  std::vector<uint8_t> is_kept_;      // One per block: 1 where idle, 0 where free or filling.
  FreeRuns free_;
  std::vector<float> key_centres_;  // May be empty.
  CacheMeter own_meter_;            // Where none is given.
  CacheMeter* meter_;
  uint64_t num_filling_ = 0;
  uint64_t num_full_ = 0;
  uint64_t num_idle_ = 0;
  uint64_t peak_used_ = 0;
  IdleObserver* observer_ = nullptr;
};

}  // namespace kvern
