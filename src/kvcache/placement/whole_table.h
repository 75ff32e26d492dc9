// WholeTable: a table whose blocks are neighbours as far as the pool has them, and stay together until the sequence
// ends: what contiguous and growing share. A window masks what it holds; nothing is given back early, nothing shared.
#pragma once

#include "kvcache/block_table.h"

namespace kvern {

class WholeTable : public BlockTable {
 public:
  Status Adopt(std::span<const BlockIndex> cached, uint64_t num_tokens) override;
  Status Fork(const BlockTable& table) override;
  Status Reserve(uint64_t num_tokens) override;
  uint64_t NumMissing(uint64_t num_tokens) const override;
  void MarkComputed(uint64_t count) override;
  Status Truncate(uint64_t num_tokens) override;
  void Release() override;

 protected:
  using BlockTable::BlockTable;
  // Blocks to hold where `num_needed` are needed, which is more than are held: at least that many.
  virtual uint64_t NextCapacity(uint64_t num_needed) const = 0;

 private:
  // `num_blocks` free blocks, all neighbours where a free run is that long.
  BlockLease LeaseTogether(uint64_t num_blocks);
  // The blocks of `from` that hold its `num_tokens` tokens, copied to the front of `lease`, in the same states. Nothing
  // is copied where `from` is kNoBlock.
  void CopyInto(const BlockLease& lease, std::span<const BlockIndex> from, uint64_t num_tokens);

  uint64_t first_kept_ = 0;  // Positions before it that are not pinned were behind the window when the table began.
};

}  // namespace kvern
