// BlockTable: the blocks of one sequence in order, and how many of its tokens they hold. Paged placement: blocks are
// leased as the sequence grows, so a sequence never holds more than one block that is not full. Full blocks may be
// shared with other tables; the one that is filled never is.
#pragma once

#include <cstdint>
#include <span>

#include "kvcache/block_pool.h"

namespace kvern {

class BlockTable {
 public:
  // `pool` must outlive the table.
  explicit BlockTable(BlockPool& pool) : pool_(pool) {}
  BlockTable(const BlockTable&) = delete;
  BlockTable& operator=(const BlockTable&) = delete;

  // Becomes a copy of `other`, a table of the same pool; this one must be empty. Full blocks are shared; the last one,
  // where it is not full, is copied into a block of this table's own. There must be a free block for it: admission saw
  // to it.
  void Fork(const BlockTable& other);
  // Takes over all that `other`, a table of the same pool, holds; this one must be empty, and `other` then is.
  void TakeOver(BlockTable& other);
  // Makes room for tokens up to `num_tokens` in total. kResourceExhausted (and no change) where the pool has too few
  // free blocks; the message has the bytes needed and free.
  Status Reserve(uint64_t num_tokens);
  // The next `count` tokens have been computed into their slots; there must be room. Blocks that are complete become
  // full.
  void Commit(uint64_t count);
  // Forgets the computed tokens but keeps the room: the uncached path computes them again. No block may be shared.
  void Rewind();
  // Gives every block back.
  void Release();

  uint64_t num_tokens() const { return num_tokens_; }  // Computed.
  uint64_t capacity() const;                           // Slots held.
  uint64_t num_bytes() const;                          // Of the blocks held.
  std::span<const BlockIndex> blocks() const { return lease_.blocks(); }

 private:
  BlockPool& pool_;
  BlockLease lease_;
  uint64_t num_tokens_ = 0;
};

}  // namespace kvern
