// A Placement decides how the slots of a sequence lie in memory: which blocks its table leases, and when. All of them
// give the kernels the same view, a table of blocks, and so the same bits; they differ in what they reserve, what they
// copy and how far apart neighbours stand. Stateless; all calls come from the engine thread.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

#include "kvcache/block_table.h"

namespace kvern {

class Placement {
 public:
  virtual ~Placement() = default;

  // Stable id used in options and tables: "paged".
  virtual std::string_view Name() const = 0;
  // Whether it gives back what no row sees any more, so that a sequence in a window needs the same memory for ever.
  virtual bool gives_back() const = 0;
  // Whether a table holds no more than its tokens need, so that MostBlocks of the tokens so far is enough to promise,
  // and can be moved out and restored.
  virtual bool leases_on_demand() const { return false; }
  // Whether tables share full blocks with each other and with the prefix index while they hold them.
  virtual bool shares_blocks() const { return false; }
  // Whether a table can begin with blocks of others (BlockTable::Adopt), and leave its own behind when it is released.
  virtual bool reuses_blocks() const { return true; }
  // kInvalidArgument where rows that see `span` cannot be placed.
  virtual Status Check(const AttentionSpan& span) const;

  // The most blocks that a table leases at any time on its course: what admission promises.
  virtual uint64_t MostBlocks(const BlockLayout& layout, const SequenceCourse& course) const = 0;
  // Of those, the ones that forks of a table of `num_tokens` tokens have in common with it until they end.
  virtual uint64_t SharedBlocks(const BlockLayout& layout, const SequenceCourse& course, uint64_t num_tokens) const;
  // Blocks held by a sequence that has come to `num_tokens` >= 1 tokens, one by one.
  virtual uint64_t HeldBlocks(const BlockLayout& layout, const SequenceCourse& course, uint64_t num_tokens) const = 0;

  virtual std::unique_ptr<BlockTable> MakeTable(BlockPool& pool, const SequenceCourse& course) const = 0;
};

const Placement& PagedPlacement();       // paged.cc
const Placement& ContiguousPlacement();  // contiguous.cc
const Placement& GrowingPlacement();     // growing.cc
const Placement& RingPlacement();        // ring.cc

}  // namespace kvern
