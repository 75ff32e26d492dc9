#include "kvcache/sequence_cache.h"

#include "base/check.h"

namespace kvern {

SequenceCache::SequenceCache(KvCache& cache, uint64_t max_tokens) {
  const KvCacheSpec& spec = cache.spec();
  for (size_t g = 0; g < cache.num_groups(); ++g) {
    tables_.push_back(spec.placement->MakeTable(cache.pool(g), spec.Course(g, max_tokens)));
  }
}

Status SequenceCache::Adopt(std::span<const std::vector<BlockIndex>> cached, uint64_t num_tokens) {
  KVERN_CHECK(cached.size() == tables_.size());
  for (size_t g = 0; g < tables_.size(); ++g) {
    const Status status = tables_[g]->Adopt(cached[g], num_tokens);
    if (status.ok()) continue;
    Release();
    return status;
  }
  return Status::Ok();
}

Status SequenceCache::Fork(const SequenceCache& other) {
  for (size_t g = 0; g < tables_.size(); ++g) {
    const Status status = tables_[g]->Fork(*other.tables_[g]);
    if (status.ok()) continue;
    Release();
    return status;
  }
  return Status::Ok();
}

Status SequenceCache::Reserve(uint64_t num_tokens) {
  for (const auto& table : tables_) KVERN_RETURN_IF_ERROR(table->Reserve(num_tokens));
  return Status::Ok();
}

void SequenceCache::Commit(uint64_t count) {
  for (const auto& table : tables_) table->Commit(count);
}

void SequenceCache::MarkComputed(uint64_t count) {
  for (const auto& table : tables_) table->MarkComputed(count);
}

void SequenceCache::DropUnseen() {
  for (const auto& table : tables_) table->DropUnseen();
}

Status SequenceCache::Truncate(uint64_t num_tokens) {
  for (const auto& table : tables_) KVERN_RETURN_IF_ERROR(table->Truncate(num_tokens));
  return Status::Ok();
}

Status SequenceCache::Restore(uint64_t num_tokens) {
  for (const auto& table : tables_) {
    const Status status = table->Restore(num_tokens);
    if (status.ok()) continue;
    Release();
    return status;
  }
  return Status::Ok();
}

void SequenceCache::Release() {
  for (const auto& table : tables_) table->Release();
}

void SequenceCache::TakeOver(SequenceCache& other) {
  KVERN_CHECK(num_bytes() == 0 && tables_.size() == other.tables_.size());
  tables_.swap(other.tables_);
}

uint64_t SequenceCache::num_bytes() const {
  uint64_t bytes = 0;
  for (const auto& table : tables_) bytes += table->num_bytes();
  return bytes;
}

BlockCounts SequenceCache::NumMissing(uint64_t num_tokens) const {
  BlockCounts blocks = {};
  for (size_t g = 0; g < tables_.size(); ++g) blocks[g] = tables_[g]->NumMissing(num_tokens);
  return blocks;
}

}  // namespace kvern
