// SequenceSpill: the blocks of one sequence in a second memory, while others have its place in the first.
#pragma once

#include <cstdint>
#include <vector>

#include "kvcache/sequence_cache.h"
#include "kvern/block_store.h"

namespace kvern {

class SequenceSpill {
 public:
  // Both must outlive the spill.
  SequenceSpill(KvCache& cache, BlockStore& store) : cache_(cache), store_(store) {}
  SequenceSpill(const SequenceSpill&) = delete;
  SequenceSpill& operator=(const SequenceSpill&) = delete;
  ~SequenceSpill() { Drop(); }

  // Writes what `sequence` holds to the store. Where that fails, the store keeps nothing.
  Status CopyOut(const SequenceCache& sequence);
  // Puts the same bytes back into `sequence`, which must be empty, and forgets them. Where that fails, the sequence is
  // empty and nothing is kept.
  Status MoveIn(SequenceCache& sequence);
  // Forgets what is kept.
  void Drop();

  uint64_t num_tokens() const { return num_tokens_; }            // Of the sequence that is kept; 0: none is.
  const BlockCounts& num_blocks() const { return num_blocks_; }  // That MoveIn needs.

 private:
  struct Record {
    size_t group;
    size_t entry;
    uint64_t id;
  };

  KvCache& cache_;
  BlockStore& store_;
  std::vector<Record> records_;
  uint64_t num_tokens_ = 0;
  BlockCounts num_blocks_ = {};
};

}  // namespace kvern
