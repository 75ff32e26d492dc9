#include "kvcache/block_table.h"

#include <limits>
#include <optional>
#include <string>
#include <utility>

#include "base/check.h"

namespace kvern {

uint64_t BlockTable::capacity() const { return lease_.blocks().size() * uint64_t{pool_.layout().block_size()}; }

uint64_t BlockTable::num_bytes() const { return lease_.blocks().size() * pool_.layout().block_bytes(); }

void BlockTable::Fork(const BlockTable& other) {
  KVERN_CHECK(&pool_ == &other.pool_ && blocks().empty());
  const uint64_t num_full = other.num_tokens_ / pool_.layout().block_size();
  lease_ = pool_.Share(other.blocks().first(num_full));
  if (pool_.layout().BlocksFor(other.num_tokens_) > num_full) {
    std::optional<BlockLease> own = pool_.Lease(1);
    KVERN_CHECK(own.has_value());
    pool_.Copy(other.blocks()[num_full], own->blocks()[0]);
    lease_.Append(*std::move(own));
  }
  num_tokens_ = other.num_tokens_;
}

void BlockTable::TakeOver(BlockTable& other) {
  KVERN_CHECK(&pool_ == &other.pool_ && blocks().empty());
  lease_ = std::move(other.lease_);
  num_tokens_ = std::exchange(other.num_tokens_, 0);
}

Status BlockTable::Reserve(uint64_t num_tokens) {
  const uint64_t num_held = lease_.blocks().size();
  const uint64_t num_needed = pool_.layout().BlocksFor(num_tokens);
  if (num_needed <= num_held) return Status::Ok();
  const uint64_t num_missing = num_needed - num_held;
  if (num_missing > pool_.free_blocks()) {
    const uint64_t block_bytes = pool_.layout().block_bytes();
    // A count whose bytes do not fit 64 bits is far beyond any pool; the message then names the count.
    const std::string needed = num_missing <= std::numeric_limits<uint64_t>::max() / block_bytes
                                   ? std::to_string(num_missing * block_bytes) + " bytes"
                                   : std::to_string(num_missing) + " blocks";
    return Status::ResourceExhausted("KV cache: room for " + std::to_string(num_tokens) + " tokens needs " + needed +
                                     " more, " + std::to_string(pool_.free_blocks() * block_bytes) + " bytes are free");
  }
  std::optional<BlockLease> lease = pool_.Lease(static_cast<uint32_t>(num_missing));
  KVERN_CHECK(lease.has_value());
  lease_.Append(*std::move(lease));
  return Status::Ok();
}

void BlockTable::Commit(uint64_t count) {
  KVERN_CHECK(count <= capacity() - num_tokens_);
  const uint32_t block_size = pool_.layout().block_size();
  const uint64_t first_open = num_tokens_ / block_size;
  num_tokens_ += count;
  for (uint64_t i = first_open; i < num_tokens_ / block_size; ++i) pool_.MarkFull(lease_.blocks()[i]);
}

void BlockTable::Rewind() {
  const uint64_t num_full = num_tokens_ / pool_.layout().block_size();
  for (uint64_t i = 0; i < num_full; ++i) pool_.MarkFilling(lease_.blocks()[i]);
  num_tokens_ = 0;
}

void BlockTable::Release() {
  lease_.Release();
  num_tokens_ = 0;
}

}  // namespace kvern
