#include "kvcache/placement/whole_table.h"

#include <optional>
#include <string>
#include <utility>

#include "base/check.h"

namespace kvern {

Status WholeTable::Adopt(std::span<const BlockIndex> cached, uint64_t num_tokens) {
  KVERN_CHECK(entries_.empty() && cached.size() == pool_.layout().BlocksFor(num_tokens));
  if (num_tokens == 0) return Status::Ok();
  KVERN_RETURN_IF_ERROR(Reserve(num_tokens));
  CopyInto(lease_, cached, num_tokens);
  num_tokens_ = num_tokens;
  first_kept_ = course_.WindowBegin(num_tokens);
  return Status::Ok();
}

Status WholeTable::Fork(const BlockTable& table) {
  const auto& other = static_cast<const WholeTable&>(table);
  KVERN_CHECK(&pool_ == &other.pool_);
  KVERN_RETURN_IF_ERROR(Adopt(other.entries_.first(pool_.layout().BlocksFor(other.num_tokens_)), other.num_tokens_));
  first_kept_ = other.first_kept_;
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

void WholeTable::MarkComputed(uint64_t count) {
  KVERN_CHECK(count <= entries_.size() * block_size() - num_tokens_);
  const uint64_t first_open = num_tokens_ / block_size();
  num_tokens_ += count;
  for (uint64_t i = first_open; i < num_tokens_ / block_size(); ++i) pool_.MarkFull(entries_[i]);
}

Status WholeTable::Truncate(uint64_t num_tokens) {
  KVERN_CHECK(num_tokens <= num_tokens_);
  if (num_tokens == 0) first_kept_ = 0;
  if (num_tokens > 0 && course_.WindowBegin(num_tokens) < first_kept_) {
    return Status::InvalidArgument("KV cache: a row at position " + std::to_string(num_tokens) + " sees position " +
                                   std::to_string(course_.WindowBegin(num_tokens)) + ", those before " +
                                   std::to_string(first_kept_) + " were never there");
  }
  for (uint64_t i = num_tokens / block_size(); i < num_tokens_ / block_size(); ++i) pool_.MarkFilling(entries_[i]);
  num_tokens_ = num_tokens;
  return Status::Ok();
}

void WholeTable::Release() {
  lease_.Release();
  entries_ = {};
  num_tokens_ = first_kept_ = 0;
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
    if (from[i] != kNoBlock) pool_.Copy(from[i], lease.blocks()[i]);
    if ((i + 1) * block_size() <= num_tokens) pool_.MarkFull(lease.blocks()[i]);
  }
}

}  // namespace kvern
