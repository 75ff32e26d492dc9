// BlockTable: the blocks of one sequence in order, and how many of its tokens they hold. Paged placement: blocks are
// leased as the sequence grows, so a sequence never holds more than one block that is not full.
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

  // Makes room for tokens up to `num_tokens` in total. kResourceExhausted (and no change) where the pool has too few
  // free blocks; the message has the bytes needed and free.
  Status Reserve(uint64_t num_tokens);
  // The next `count` tokens have been computed into their slots; there must be room. Blocks that are complete become
  // full.
  void Commit(uint64_t count);
  // Forgets the computed tokens but keeps the room: the uncached path computes them again.
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
