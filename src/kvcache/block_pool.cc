#include "kvcache/block_pool.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <string>
#include <utility>

#include "base/check.h"

namespace kvern {

BlockLease::BlockLease(BlockLease&& other) noexcept
    : pool_(std::exchange(other.pool_, nullptr)), blocks_(std::exchange(other.blocks_, {})) {}

BlockLease& BlockLease::operator=(BlockLease&& other) noexcept {
  if (this != &other) {
    Release();
    pool_ = std::exchange(other.pool_, nullptr);
    blocks_ = std::exchange(other.blocks_, {});
  }
  return *this;
}

BlockLease::~BlockLease() { Release(); }

void BlockLease::Append(BlockLease other) {
  if (other.pool_ == nullptr) return;
  KVERN_CHECK(pool_ == nullptr || pool_ == other.pool_);
  pool_ = std::exchange(other.pool_, nullptr);
  blocks_.insert(blocks_.end(), other.blocks_.begin(), other.blocks_.end());
  other.blocks_.clear();
}

void BlockLease::Release() {
  if (pool_ != nullptr) pool_->Return(blocks_);
  pool_ = nullptr;
  blocks_.clear();
}

Result<std::unique_ptr<BlockPool>> BlockPool::Create(const BlockLayout& layout, uint64_t budget_bytes,
                                                     MemoryAllocator& allocator) {
  const uint64_t num_blocks =
      std::min<uint64_t>(budget_bytes / layout.block_bytes(), std::numeric_limits<BlockIndex>::max());
  if (num_blocks == 0) {
    return Status::ResourceExhausted("KV cache: the budget is " + std::to_string(budget_bytes) +
                                     " bytes, one block of " + std::to_string(layout.block_size()) + " tokens needs " +
                                     std::to_string(layout.block_bytes()));
  }
  auto memory = allocator.Allocate(num_blocks * layout.block_bytes());
  if (!memory.ok()) return Status(memory.status().code(), "KV cache: " + memory.status().message());
  return std::unique_ptr<BlockPool>(
      new BlockPool(layout, std::move(memory).value(), static_cast<uint32_t>(num_blocks)));
}

BlockPool::BlockPool(const BlockLayout& layout, AlignedBuffer memory, uint32_t num_blocks)
    : layout_(layout),
      memory_(std::move(memory)),
      states_(num_blocks, BlockState::kFree),
      num_leases_(num_blocks, 0),
      free_(num_blocks) {
  // Block 0 on top: memory is touched from its beginning on, and no more of it than was ever in use.
  for (uint32_t i = 0; i < num_blocks; ++i) free_[i] = num_blocks - 1 - i;
}

BlockPool::~BlockPool() { KVERN_CHECK(free_.size() == states_.size()); }

std::optional<BlockLease> BlockPool::Lease(uint32_t count) {
  if (count > free_.size()) return std::nullopt;
  BlockLease lease;
  lease.pool_ = this;
  lease.blocks_.assign(free_.rbegin(), free_.rbegin() + count);
  free_.resize(free_.size() - count);
  for (const BlockIndex block : lease.blocks_) {
    KVERN_DCHECK(states_[block] == BlockState::kFree);
    states_[block] = BlockState::kFilling;
    num_leases_[block] = 1;
  }
  num_filling_ += count;
  peak_used_ = std::max<uint64_t>(peak_used_, states_.size() - free_.size());
  CheckInvariant();
  return lease;
}

BlockLease BlockPool::Share(std::span<const BlockIndex> blocks) {
  for (const BlockIndex block : blocks) {
    KVERN_CHECK(block < states_.size() && states_[block] == BlockState::kFull);
    ++num_leases_[block];
  }
  BlockLease lease;
  lease.pool_ = this;
  lease.blocks_.assign(blocks.begin(), blocks.end());
  CheckInvariant();
  return lease;
}

void BlockPool::Copy(BlockIndex from, BlockIndex to) {
  KVERN_CHECK(from < states_.size() && states_[from] != BlockState::kFree);
  KVERN_CHECK(to < states_.size() && states_[to] == BlockState::kFilling && to != from);
  const uint64_t num_bytes = layout_.block_bytes();
  std::memcpy(memory_.data() + to * num_bytes, memory_.data() + from * num_bytes, num_bytes);
}

void BlockPool::MarkFull(BlockIndex block) {
  KVERN_CHECK(block < states_.size() && states_[block] == BlockState::kFilling);
  states_[block] = BlockState::kFull;
  --num_filling_;
  ++num_full_;
  CheckInvariant();
}

void BlockPool::MarkFilling(BlockIndex block) {
  KVERN_CHECK(block < states_.size() && states_[block] == BlockState::kFull && num_leases_[block] == 1);
  states_[block] = BlockState::kFilling;
  --num_full_;
  ++num_filling_;
  CheckInvariant();
}

void BlockPool::Return(std::span<const BlockIndex> blocks) {
  // Last block first, so that the next sequence gets them in the same order.
  for (size_t i = blocks.size(); i-- > 0;) {
    BlockState& state = states_[blocks[i]];
    KVERN_CHECK(state != BlockState::kFree);
    if (--num_leases_[blocks[i]] > 0) continue;
    --(state == BlockState::kFull ? num_full_ : num_filling_);
    state = BlockState::kFree;
    free_.push_back(blocks[i]);
  }
  CheckInvariant();
}

BlockState BlockPool::state(BlockIndex block) const {
  KVERN_CHECK(block < states_.size());
  return states_[block];
}

uint32_t BlockPool::num_leases(BlockIndex block) const {
  KVERN_CHECK(block < num_leases_.size());
  return num_leases_[block];
}

CacheStats BlockPool::Stats() const {
  CacheStats stats;
  stats.total_blocks = states_.size();
  stats.free_blocks = free_.size();
  stats.filling_blocks = num_filling_;
  stats.full_blocks = num_full_;
  stats.block_bytes = layout_.block_bytes();
  stats.peak_used_blocks = peak_used_;
  return stats;
}

// free + filling + full = total, and the counts are those of the states; leases are as each state allows.
void BlockPool::CheckInvariant() const {
#ifndef NDEBUG
  uint64_t counts[3] = {};
  for (size_t i = 0; i < states_.size(); ++i) {
    ++counts[static_cast<size_t>(states_[i])];
    KVERN_CHECK((num_leases_[i] == 0) == (states_[i] == BlockState::kFree));
    KVERN_CHECK(num_leases_[i] <= 1 || states_[i] == BlockState::kFull);
  }
  KVERN_CHECK(counts[static_cast<size_t>(BlockState::kFree)] == free_.size());
  KVERN_CHECK(counts[static_cast<size_t>(BlockState::kFilling)] == num_filling_);
  KVERN_CHECK(counts[static_cast<size_t>(BlockState::kFull)] == num_full_);
  KVERN_CHECK(free_.size() + num_filling_ + num_full_ == states_.size());
#endif
}

}  // namespace kvern
