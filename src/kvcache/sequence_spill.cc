#include "kvcache/sequence_spill.h"

#include <span>

namespace kvern {

Status SequenceSpill::CopyOut(const SequenceCache& sequence) {
  Drop();
  for (size_t g = 0; g < sequence.num_groups(); ++g) {
    BlockPool& pool = cache_.pool(g);
    const std::span<const BlockIndex> blocks = sequence.table(g).blocks();
    // Room beyond the last token holds nothing.
    const uint64_t num_entries = pool.layout().BlocksFor(sequence.num_tokens());
    for (size_t i = 0; i < num_entries; ++i) {
      if (blocks[i] == kNoBlock) continue;
      const uint64_t id = cache_.NextStoreId();
      const Status status = store_.Put(id, {pool.BlockBytes(blocks[i]), pool.layout().block_bytes()});
      if (!status.ok()) {
        Drop();
        return status;
      }
      records_.push_back({g, i, id});
      ++num_blocks_[g];
    }
  }
  num_tokens_ = sequence.num_tokens();
  cache_.CountSpilled(cache_.spec().BytesOf(num_blocks_));
  return Status::Ok();
}

Status SequenceSpill::MoveIn(SequenceCache& sequence) {
  Status status = sequence.Restore(num_tokens_);
  for (const Record& record : records_) {
    if (!status.ok()) break;
    BlockPool& pool = cache_.pool(record.group);
    const BlockIndex block = sequence.table(record.group).blocks()[record.entry];
    status = store_.Get(record.id, {pool.BlockBytes(block), pool.layout().block_bytes()});
  }
  status.ok() ? cache_.CountRestored(cache_.spec().BytesOf(num_blocks_)) : sequence.Release();
  Drop();
  return status;
}

void SequenceSpill::Drop() {
  for (const Record& record : records_) store_.Erase(record.id);
  records_.clear();
  num_tokens_ = 0;
  num_blocks_ = {};
}

}  // namespace kvern
