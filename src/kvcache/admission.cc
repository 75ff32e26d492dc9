#include "kvcache/admission.h"

#include <algorithm>

namespace kvern {

Admission::Admission(KvCache& cache, const BlockCounts& pinned) : cache_(cache) {
  for (size_t g = 0; g < cache.num_groups(); ++g) {
    const BlockPool& pool = cache.pool(g);
    room_[g] = CountsOnce(g) ? pool.free_blocks() + pool.idle_blocks() : pool.total_blocks() - pinned[g];
  }
}

bool Admission::CountsOnce(size_t group) const {
  return cache_.spec().placement->shares_blocks() && cache_.spec().groups[group].window == 0;
}

void Admission::Count(const SequenceCache& sequence, uint64_t max_tokens) {
  BlockCounts need = cache_.spec().MostBlocks(max_tokens);
  for (size_t g = 0; g < cache_.num_groups(); ++g) {
    if (CountsOnce(g)) need[g] -= std::min(need[g], sequence.table(g).num_held());
  }
  promised_ = Sum(promised_, need);
}

BlockCounts Admission::ForkNeed(uint64_t num_tokens, uint64_t max_tokens) const {
  BlockCounts need = cache_.spec().MostBlocks(max_tokens);
  const BlockCounts shared = cache_.spec().SharedBlocks(max_tokens, num_tokens);
  for (size_t g = 0; g < cache_.num_groups(); ++g) need[g] -= shared[g];
  return need;
}

bool Admission::Fits(const PrefixMatch& match, uint64_t max_tokens, uint64_t num_forks, uint64_t fork_tokens) const {
  BlockCounts need = cache_.spec().MostBlocks(max_tokens);
  for (size_t g = 0; g < cache_.num_groups(); ++g) {
    if (CountsOnce(g)) need[g] -= std::min(need[g], match.num_leased[g]);
  }
  if (num_forks > 0) need = Sum(need, ForkNeed(fork_tokens, max_tokens), num_forks);
  return FitsInto(Sum(promised_, need), room_);
}

bool Admission::FitsPin(const PrefixMatch& match) const {
  BlockCounts need = {};
  for (size_t g = 0; g < match.blocks.size(); ++g) {
    for (const BlockIndex block : match.blocks[g]) {
      if (block == kNoBlock) continue;
      if (!CountsOnce(g) || cache_.pool(g).state(block) == BlockState::kIdle) ++need[g];
    }
  }
  return FitsInto(Sum(promised_, need), room_);
}

}  // namespace kvern
