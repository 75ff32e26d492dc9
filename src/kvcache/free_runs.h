// FreeRuns: which blocks of a pool are free, as runs of neighbours that are as long as they can be. Finding a place and
// giving one back cost O(log runs); a pool whose blocks are leased side by side has few runs.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "kernels/kv_view.h"

namespace kvern {

struct BlockRun {
  BlockIndex begin = 0;
  uint32_t count = 0;
  BlockIndex end() const { return begin + count; }
};

class FreeRuns {
 public:
  // Blocks 0 .. num_blocks - 1 are free.
  explicit FreeRuns(uint32_t num_blocks);

  uint64_t num_free() const { return num_free_; }
  uint64_t num_runs() const { return by_begin_.size(); }
  // The shortest run of `count` blocks or more, the lowest among equals: long runs stay for those who need them.
  std::optional<BlockRun> BestFit(uint32_t count) const;
  // nullopt where nothing is free.
  std::optional<BlockRun> Longest() const;
  // Free blocks in a row from `begin` on; 0 where it is not free.
  uint32_t CountFrom(BlockIndex begin) const;

  // Takes the blocks of `run`, which must be free.
  void Take(BlockRun run);
  // `run`, none of which is free, becomes free and joins its neighbours.
  void Give(BlockRun run);

 private:
  using ByBegin = std::map<BlockIndex, uint32_t>;
  // The run that holds `block`, or end.
  ByBegin::const_iterator Holding(BlockIndex block) const;
  void Insert(BlockRun run);
  void Erase(BlockRun run);

  ByBegin by_begin_;                                     // First block -> blocks.
  std::set<std::pair<uint32_t, BlockIndex>> by_length_;  // The same runs, shortest first.
  uint64_t num_free_ = 0;
};

}  // namespace kvern
