#include "kvcache/free_runs.h"

#include <algorithm>
#include <iterator>

#include "base/check.h"

namespace kvern {

FreeRuns::FreeRuns(uint32_t num_blocks) {
  if (num_blocks > 0) Insert({0, num_blocks});
  num_free_ = num_blocks;
}

std::optional<BlockRun> FreeRuns::BestFit(uint32_t count) const {
  const auto found = by_length_.lower_bound({count, 0});
  if (found == by_length_.end()) return std::nullopt;
  return BlockRun{found->second, found->first};
}

std::optional<BlockRun> FreeRuns::Longest() const {
  if (by_length_.empty()) return std::nullopt;
  return BlockRun{by_length_.rbegin()->second, by_length_.rbegin()->first};
}

uint32_t FreeRuns::CountFrom(BlockIndex begin) const {
  const auto run = Holding(begin);
  return run == by_begin_.end() ? 0 : run->first + run->second - begin;
}

void FreeRuns::Take(BlockRun run) {
  if (run.count == 0) return;
  const auto found = Holding(run.begin);
  KVERN_CHECK(found != by_begin_.end());
  const BlockRun whole = {found->first, found->second};
  KVERN_CHECK(run.count <= whole.end() - run.begin);
  Erase(whole);
  if (run.begin > whole.begin) Insert({whole.begin, run.begin - whole.begin});
  if (run.end() < whole.end()) Insert({run.end(), whole.end() - run.end()});
  num_free_ -= run.count;
}

void FreeRuns::Give(BlockRun run) {
  if (run.count == 0) return;
  num_free_ += run.count;
  const auto next = by_begin_.lower_bound(run.begin);
  KVERN_CHECK(next == by_begin_.end() || next->first >= run.end());
  std::optional<BlockRun> before, after;
  if (next != by_begin_.end() && next->first == run.end()) after = {next->first, next->second};
  if (next != by_begin_.begin()) {
    const auto previous = std::prev(next);
    KVERN_CHECK(previous->first + previous->second <= run.begin);
    if (previous->first + previous->second == run.begin) before = {previous->first, previous->second};
  }
  for (const std::optional<BlockRun>& neighbour : {before, after}) {
    if (!neighbour.has_value()) continue;
    Erase(*neighbour);
    run = {std::min(run.begin, neighbour->begin), run.count + neighbour->count};
  }
  Insert(run);
}

FreeRuns::ByBegin::const_iterator FreeRuns::Holding(BlockIndex block) const {
  auto after = by_begin_.upper_bound(block);
  if (after == by_begin_.begin()) return by_begin_.end();
  const auto run = std::prev(after);
  return block < run->first + run->second ? run : by_begin_.end();
}

void FreeRuns::Insert(BlockRun run) {
  by_begin_.emplace(run.begin, run.count);
  by_length_.emplace(run.count, run.begin);
}

void FreeRuns::Erase(BlockRun run) {
  by_begin_.erase(run.begin);
  by_length_.erase({run.count, run.begin});
}

}  // namespace kvern
