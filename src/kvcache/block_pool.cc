#include "kvcache/block_pool.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <string>
#include <utility>

#include "base/check.h"

namespace kvern {

BlockLease::BlockLease(BlockLease&& other) noexcept
    : pool_(std::exchange(other.pool_, nullptr)),
      blocks_(std::exchange(other.blocks_, {})),
      num_held_(std::exchange(other.num_held_, 0)) {}

BlockLease& BlockLease::operator=(BlockLease&& other) noexcept {
  if (this != &other) {
    Release();
    pool_ = std::exchange(other.pool_, nullptr);
    blocks_ = std::exchange(other.blocks_, {});
    num_held_ = std::exchange(other.num_held_, 0);
  }
  return *this;
}

BlockLease::~BlockLease() { Release(); }

void BlockLease::Append(BlockLease other) {
  if (other.pool_ == nullptr) return;
  KVERN_CHECK(pool_ == nullptr || pool_ == other.pool_);
  pool_ = std::exchange(other.pool_, nullptr);
  blocks_.insert(blocks_.end(), other.blocks_.begin(), other.blocks_.end());
  num_held_ += std::exchange(other.num_held_, 0);
  other.blocks_.clear();
}

void BlockLease::Drop(size_t i) {
  KVERN_CHECK(i < blocks_.size() && blocks_[i] != kNoBlock);
  pool_->Return(std::span(&blocks_[i], 1));
  blocks_[i] = kNoBlock;
  --num_held_;
}

void BlockLease::Replace(size_t i, BlockLease other) {
  KVERN_CHECK(other.pool_ == pool_ && other.blocks_.size() == 1);
  Drop(i);
  blocks_[i] = other.blocks_[0];
  num_held_ += std::exchange(other.num_held_, 0);
  other.pool_ = nullptr;
}

void BlockLease::Shrink(size_t size) {
  if (size >= blocks_.size()) return;
  const std::span<const BlockIndex> rest = blocks().subspan(size);
  num_held_ -= rest.size() - static_cast<size_t>(std::ranges::count(rest, kNoBlock));
  pool_->Return(rest);
  blocks_.resize(size);
}

void BlockLease::Release() {
  if (pool_ != nullptr) pool_->Return(blocks_);
  pool_ = nullptr;
  blocks_.clear();
  num_held_ = 0;
}

Result<std::unique_ptr<BlockPool>> BlockPool::Create(const BlockLayout& layout, uint64_t budget_bytes,
                                                     MemoryAllocator& allocator, CacheMeter* meter) {
  const uint64_t num_blocks =
      std::min<uint64_t>(budget_bytes / layout.block_bytes(), std::numeric_limits<BlockIndex>::max() - 1);
  if (num_blocks == 0) {
    return Status::ResourceExhausted("KV cache: the budget is " + std::to_string(budget_bytes) +
                                     " bytes, one block of " + std::to_string(layout.block_size()) + " tokens needs " +
                                     std::to_string(layout.block_bytes()));
  }
  auto memory = allocator.Allocate(num_blocks * layout.block_bytes());
  if (!memory.ok()) return Status(memory.status().code(), "KV cache: " + memory.status().message());
  return std::unique_ptr<BlockPool>(
      new BlockPool(layout, std::move(memory).value(), static_cast<uint32_t>(num_blocks), meter));
}

BlockPool::BlockPool(const BlockLayout& layout, AlignedBuffer memory, uint32_t num_blocks, CacheMeter* meter)
    : layout_(layout),
      memory_(std::move(memory)),
      states_(num_blocks, BlockState::kFree),
      num_leases_(num_blocks, 0),
      is_kept_(num_blocks, 0),
      free_(num_blocks),
      meter_(meter != nullptr ? meter : &own_meter_) {}

BlockPool::~BlockPool() { KVERN_CHECK(free_.num_free() + num_idle_ == states_.size()); }

std::optional<BlockLease> BlockPool::Lease(uint32_t count, BlockIndex after) {
  if (count > free_.num_free()) return std::nullopt;
  BlockLease lease;
  lease.pool_ = this;
  if (after != kNoBlock) TakeInto({after + 1, std::min(count, free_.CountFrom(after + 1))}, lease);
  while (lease.num_held_ < count) TakeInto(ChoosePlace(count - static_cast<uint32_t>(lease.num_held_)), lease);
  CheckInvariant();
  return lease;
}

std::optional<BlockLease> BlockPool::LeaseRun(uint32_t count) {
  BlockLease lease;
  lease.pool_ = this;
  if (count == 0) return lease;
  const std::optional<BlockRun> place = free_.BestFit(count);
  if (!place.has_value()) return std::nullopt;
  TakeInto({place->begin, count}, lease);
  CheckInvariant();
  return lease;
}

BlockRun BlockPool::ChoosePlace(uint32_t count) const {
  const uint32_t extent = std::max(1u, kExtentSlots / layout_.block_size());
  std::optional<BlockRun> run = free_.BestFit(std::max(count, extent));
  if (!run.has_value()) run = free_.Longest();
  KVERN_CHECK(run.has_value());
  if (run->count < extent) {  // No extent is free: the smallest gap that holds all, to leave the others as they are.
    if (const std::optional<BlockRun> gap = free_.BestFit(count)) run = gap;
    return {run->begin, std::min(count, run->count)};
  }
  // From a border of extents on, where that leaves as many blocks: what stands before it is room to grow for another.
  const BlockIndex border = (run->begin + extent - 1) / extent * extent;
  if (border + std::min(count, extent) <= run->end()) run = BlockRun{border, run->end() - border};
  return {run->begin, std::min(count, run->count)};
}

void BlockPool::TakeInto(BlockRun run, BlockLease& lease) {
  free_.Take(run);
  for (BlockIndex block = run.begin; block < run.end(); ++block) {
    KVERN_DCHECK(states_[block] == BlockState::kFree);
    states_[block] = BlockState::kFilling;
    num_leases_[block] = 1;
    lease.blocks_.push_back(block);
  }
  lease.num_held_ += run.count;
  num_filling_ += run.count;
  CountUsed(run.count);
}

BlockLease BlockPool::Share(std::span<const BlockIndex> blocks) {
  BlockLease lease;
  lease.pool_ = this;
  lease.blocks_.assign(blocks.begin(), blocks.end());
  for (const BlockIndex block : blocks) {
    if (block == kNoBlock) continue;
    KVERN_CHECK(block < states_.size());
    if (states_[block] == BlockState::kIdle) LeaseIdle(block);
    KVERN_CHECK(states_[block] == BlockState::kFull);
    ++num_leases_[block];
    ++lease.num_held_;
  }
  CheckInvariant();
  return lease;
}

KvView BlockPool::view() {
  KvView view = layout_.View(memory_.data());
  if (!key_centres_.empty()) view.key_centres = key_centres_.data();
  return view;
}

void BlockPool::SetKeyCentres(std::vector<float> centres) {
  const KvShape& shape = layout_.shape();
  KVERN_CHECK(centres.size() == size_t{shape.num_layers} * shape.num_kv_heads * shape.head_dim);
  KVERN_CHECK(free_blocks() == total_blocks());
  key_centres_ = std::move(centres);
}

void BlockPool::LeaseIdle(BlockIndex block) {
  states_[block] = BlockState::kFull;
  --num_idle_;
  ++num_full_;
  CountUsed(1);
  if (observer_ != nullptr) observer_->OnLeasedAgain(block);
}

void BlockPool::CountUsed(uint64_t num_blocks) {
  peak_used_ = std::max(peak_used_, num_filling_ + num_full_);
  meter_->used_bytes += num_blocks * layout_.block_bytes();
  meter_->peak_used_bytes = std::max(meter_->peak_used_bytes, meter_->used_bytes);
}

void BlockPool::Keep(BlockIndex block) {
  KVERN_CHECK(state(block) == BlockState::kFull);
  is_kept_[block] = 1;
}

void BlockPool::StopKeeping(BlockIndex block) {
  KVERN_CHECK(state(block) == BlockState::kFull && is_kept(block));
  is_kept_[block] = 0;
}

void BlockPool::Evict(BlockIndex block) {
  KVERN_CHECK(state(block) == BlockState::kIdle);
  states_[block] = BlockState::kFree;
  is_kept_[block] = 0;
  --num_idle_;
  free_.Give({block, 1});
  CheckInvariant();
}

uint8_t* BlockPool::BlockBytes(BlockIndex block) {
  KVERN_CHECK(block < states_.size());
  return memory_.data() + block * layout_.block_bytes();
}

void BlockPool::Copy(BlockIndex from, BlockIndex to) {
  KVERN_CHECK(from < states_.size() && states_[from] != BlockState::kFree);
  KVERN_CHECK(to < states_.size() && states_[to] == BlockState::kFilling && to != from);
  std::memcpy(BlockBytes(to), BlockBytes(from), layout_.block_bytes());
  meter_->copied_bytes += layout_.block_bytes();
}

void BlockPool::MarkFull(BlockIndex block) {
  KVERN_CHECK(block < states_.size() && states_[block] == BlockState::kFilling);
  states_[block] = BlockState::kFull;
  --num_filling_;
  ++num_full_;
  CheckInvariant();
}

void BlockPool::MarkFilling(BlockIndex block) {
  KVERN_CHECK(block < states_.size() && states_[block] == BlockState::kFull && IsOwn(block));
  states_[block] = BlockState::kFilling;
  --num_full_;
  ++num_filling_;
  CheckInvariant();
}

void BlockPool::Return(std::span<const BlockIndex> blocks) {
  for (size_t i = blocks.size(); i-- > 0;) {
    const BlockIndex block = blocks[i];
    if (block == kNoBlock) continue;
    BlockState& state = states_[block];
    KVERN_CHECK(num_leases_[block] > 0);
    if (--num_leases_[block] > 0) continue;
    --(state == BlockState::kFull ? num_full_ : num_filling_);
    meter_->used_bytes -= layout_.block_bytes();
    if (is_kept(block)) {
      state = BlockState::kIdle;
      ++num_idle_;
      if (observer_ != nullptr) observer_->OnIdle(block);
    } else {
      state = BlockState::kFree;
      free_.Give({block, 1});
    }
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
  const uint64_t block_bytes = layout_.block_bytes();
  CacheStats stats;
  stats.total_blocks = states_.size();
  stats.free_blocks = free_.num_free();
  stats.filling_blocks = num_filling_;
  stats.full_blocks = num_full_;
  stats.idle_blocks = num_idle_;
  stats.block_bytes = block_bytes;
  stats.peak_used_blocks = peak_used_;
  stats.total_bytes = states_.size() * block_bytes;
  stats.free_bytes = free_.num_free() * block_bytes;
  stats.filling_bytes = num_filling_ * block_bytes;
  stats.full_bytes = num_full_ * block_bytes;
  stats.idle_bytes = num_idle_ * block_bytes;
  stats.peak_used_bytes = meter_->peak_used_bytes;
  stats.copied_bytes = meter_->copied_bytes;
  return stats;
}

// free + filling + full + idle = total, and the counts are those of the states; leases are as each state allows.
void BlockPool::CheckInvariant() const {
#ifndef NDEBUG
  uint64_t counts[4] = {};
  for (size_t i = 0; i < states_.size(); ++i) {
    ++counts[static_cast<size_t>(states_[i])];
    const bool is_leased = states_[i] == BlockState::kFilling || states_[i] == BlockState::kFull;
    KVERN_CHECK((num_leases_[i] > 0) == is_leased);
    KVERN_CHECK(num_leases_[i] <= 1 || states_[i] == BlockState::kFull);
    KVERN_CHECK(states_[i] == BlockState::kFull || (is_kept_[i] != 0) == (states_[i] == BlockState::kIdle));
  }
  KVERN_CHECK(counts[static_cast<size_t>(BlockState::kFree)] == free_.num_free());
  KVERN_CHECK(counts[static_cast<size_t>(BlockState::kFilling)] == num_filling_);
  KVERN_CHECK(counts[static_cast<size_t>(BlockState::kFull)] == num_full_);
  KVERN_CHECK(counts[static_cast<size_t>(BlockState::kIdle)] == num_idle_);
  KVERN_CHECK(free_.num_free() + num_filling_ + num_full_ + num_idle_ == states_.size());
#endif
}

}  // namespace kvern
