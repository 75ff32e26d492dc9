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
  explicit BlockTable(BlockPool& pool);

  // Makes room for tokens up to `num_tokens` in total. kResourceExhausted (and no change) where the pool has too few free
  // blocks; the message has the bytes needed and free.
  Status Reserve(uint64_t num_tokens);
  // The next `count` tokens have been computed into their slots; there must be room. Blocks that are complete become full.
  void Commit(uint64_t count);
  // Forgets the computed tokens but keeps the room: the uncached path computes them again.
  void Rewind();
  // Gives every block back.
  void Release();

  uint64_t num_tokens() const;   // Computed.
  uint64_t capacity() const;     // Slots held.
  std::span<const BlockIndex> blocks() const;

 private:
  // (implementation)
};

}  // namespace kvern
