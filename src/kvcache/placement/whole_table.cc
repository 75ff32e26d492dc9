#include "kvcache/placement/whole_table.h"

#include <optional>
#include <utility>

#include "base/check.h"

namespace kvern {

Status WholeTable::Fork(const BlockTable& table) {
  const auto& other = static_cast<const WholeTable&>(table);
  KVERN_CHECK(&pool_ == &other.pool_ && entries_.empty());
  const uint64_t num_needed = pool_.layout().BlocksFor(other.num_tokens_);
  if (num_needed == 0) return Status::Ok();
  KVERN_RETURN_IF_ERROR(Reserve(other.num_tokens_));
  CopyInto(lease_, other.entries_, other.num_tokens_);
  num_tokens_ = other.num_tokens_;
  return Status::Ok();
}

uint64_t WholeTable::NumMissing(uint64_t num_tokens) const {
  const uint64_t num_needed = pool_.layout().BlocksFor(num_tokens);
  return num_needed <= entries_.size() ? 0 : NextCapacity(num_needed);
}

Status WholeTable::Reserve(uint64_t num_tokens) {
  const uint64_t capacity = NumMissing(num_tokens);
  KVERN_RETURN_IF_ERROR(CheckRoom(num_tokens, capacity));
  if (capacity == 0) return Status::Ok();
  // Old and new stand side by side until the bytes are copied.
  BlockLease larger = LeaseTogether(capacity);
  CopyInto(larger, entries_, num_tokens_);
  lease_ = std::move(larger);
  entries_ = lease_.blocks();
  return Status::Ok();
}

void WholeTable::Commit(uint64_t count) {
  KVERN_CHECK(count <= entries_.size() * block_size() - num_tokens_);
  const uint64_t first_open = num_tokens_ / block_size();
  num_tokens_ += count;
  for (uint64_t i = first_open; i < num_tokens_ / block_size(); ++i) pool_.MarkFull(entries_[i]);
}

Status WholeTable::Truncate(uint64_t num_tokens) {
  KVERN_CHECK(num_tokens <= num_tokens_);
  for (uint64_t i = num_tokens / block_size(); i < num_tokens_ / block_size(); ++i) pool_.MarkFilling(entries_[i]);
  num_tokens_ = num_tokens;
  return Status::Ok();
}

void WholeTable::Release() {
  lease_.Release();
  entries_ = {};
  num_tokens_ = 0;
}

BlockLease WholeTable::LeaseTogether(uint64_t num_blocks) {
  const auto count = static_cast<uint32_t>(num_blocks);
  std::optional<BlockLease> lease = pool_.LeaseRun(count);
  if (!lease.has_value()) lease = pool_.Lease(count);
  KVERN_CHECK(lease.has_value());
  return *std::move(lease);
}

void WholeTable::CopyInto(const BlockLease& lease, std::span<const BlockIndex> from, uint64_t num_tokens) {
  for (uint64_t i = 0; i < pool_.layout().BlocksFor(num_tokens); ++i) {
    pool_.Copy(from[i], lease.blocks()[i]);
    if ((i + 1) * block_size() <= num_tokens) pool_.MarkFull(lease.blocks()[i]);
  }
}

}  // namespace kvern
