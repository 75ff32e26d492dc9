// BlockTable: where the tokens of one sequence stand in the pool of one layer group. Entry i names the block that holds
// positions i * block_size and on; kNoBlock where the block was given back because no later row sees it. Which blocks
// stand there, and when they are leased, is the placement's choice (kvcache/placement/); kernels see entries only.
#pragma once

#include <cstdint>
#include <span>

#include "kvcache/block_pool.h"

namespace kvern {

// What is known of a sequence before its first token: how long it may become and what its rows see.
struct SequenceCourse {
  uint64_t max_tokens = 0;       // Slots of its longest course.
  uint32_t max_step_tokens = 1;  // Most rows of one step.
  AttentionSpan span = {};       // span.pinned must outlive what is made from the course.

  // The first position in the window of the row at `position`; pinned ones may stand before it.
  uint64_t WindowBegin(uint64_t position) const {
    return span.window == 0 || position < span.window ? 0 : position - span.window + 1;
  }
  // Whether block `i` holds a pinned position.
  bool IsPinned(uint64_t i, uint32_t block_size) const;
  // Blocks below `num_blocks` that do.
  uint64_t NumPinned(uint64_t num_blocks, uint32_t block_size) const;
};

class BlockTable {
 public:
  virtual ~BlockTable() = default;
  BlockTable(const BlockTable&) = delete;
  BlockTable& operator=(const BlockTable&) = delete;

  // Becomes the table of the first `num_tokens` tokens of a sequence whose blocks are `cached`: one entry for each
  // block of them, all full or idle but for the last, kNoBlock where no row from num_tokens on sees one. Whole blocks
  // are shared where the placement can (Placement::shares_blocks), else copied; one that num_tokens does not fill is
  // copied. Must be empty. kResourceExhausted (and no change) where the pool has too few free blocks; kUnsupported
  // where the placement cannot.
  virtual Status Adopt(std::span<const BlockIndex> cached, uint64_t num_tokens);
  // Becomes a copy of `other`, a table of the same placement, pool and course; this one must be empty.
  // kResourceExhausted (and no change) where the pool has too few free blocks.
  virtual Status Fork(const BlockTable& other) = 0;
  // Makes room for tokens up to `num_tokens` in total; at most max_step_tokens more than there are where blocks behind
  // a window are given back. kResourceExhausted (and no change) where the pool has too few free blocks, with the bytes
  // needed and free; kInvalidArgument beyond the course's max_tokens.
  virtual Status Reserve(uint64_t num_tokens) = 0;
  // Free blocks that Reserve(num_tokens) would lease now.
  virtual uint64_t NumMissing(uint64_t num_tokens) const = 0;
  // The next `count` tokens have been computed into their slots; there must be room. Blocks that are complete become
  // full; those that no later row sees may be given back.
  void Commit(uint64_t count) {
    MarkComputed(count);
    DropUnseen();
  }
  // The two halves of Commit: between them, every block that was just completed is still held.
  virtual void MarkComputed(uint64_t count) = 0;
  virtual void DropUnseen() {}
  // Forgets the tokens from `num_tokens` on. kInvalidArgument (and no change) where the next row would see a slot that
  // has been given back; 0 is always possible. kResourceExhausted (and no change) where the block that is opened again
  // is shared and no block is free for a copy.
  virtual Status Truncate(uint64_t num_tokens) = 0;
  // Becomes what it is after `num_tokens` tokens, whose bytes the caller then puts into its blocks; must be empty.
  // kResourceExhausted (and no change) where the pool has too few free blocks. Only where
  // Placement::leases_on_demand().
  virtual Status Restore(uint64_t num_tokens);
  // Gives every block back.
  virtual void Release() = 0;

  std::span<const BlockIndex> blocks() const { return entries_; }
  uint64_t num_tokens() const { return num_tokens_; }                   // Computed.
  uint64_t num_held() const { return lease_.num_held() + num_apart_; }  // Blocks leased.
  uint64_t num_bytes() const { return num_held() * pool_.layout().block_bytes(); }
  const SequenceCourse& course() const { return course_; }

 protected:
  // `pool` must outlive the table.
  BlockTable(BlockPool& pool, const SequenceCourse& course) : pool_(pool), course_(course) {}

  uint32_t block_size() const { return pool_.layout().block_size(); }
  // Ok where `num_tokens` are within the course and the pool has `num_missing` free blocks.
  Status CheckRoom(uint64_t num_tokens, uint64_t num_missing) const;

  BlockPool& pool_;
  const SequenceCourse course_;
  BlockLease lease_;
  uint64_t num_apart_ = 0;               // Blocks of other leases.
  std::span<const BlockIndex> entries_;  // Of lease_, or of a vector of the placement's own.
  uint64_t num_tokens_ = 0;
};

}  // namespace kvern
