// Matcher: one search for the longest cached beginning, over all layer groups. Looks every block up once at most.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kvcache/prefix_cache.h"

namespace kvern {

class PrefixCache::Matcher {
 public:
  // `chain` must have the keys of `tokens`. All must outlive it.
  Matcher(const PrefixCache& cache, std::span<const TokenId> tokens, const KeyChain& chain);

  PrefixMatch Find(uint64_t max_tokens);

 private:
  // The block that holds all of block `i` of the tokens, or kNoBlock.
  BlockIndex Whole(size_t group, uint64_t i);
  // The same, or one that holds some of its first tokens; {kNoBlock, 0} where there is none.
  PrefixIndex::Beginning Beginning(size_t group, uint64_t i);
  // Leading tokens that are cached in a group whose rows see all.
  uint64_t NumLeading(size_t group, uint64_t max_tokens);
  // Of the whole blocks before block `end` that a row at position `num_tokens` sees, one that is not cached; `end`
  // where all are.
  uint64_t FindMissing(size_t group, uint64_t num_tokens, uint64_t end);
  PrefixMatch Build(uint64_t num_tokens);

  const PrefixCache& cache_;
  const std::span<const TokenId> tokens_;
  const KeyChain& chain_;
  const uint64_t block_size_;
  std::vector<SequenceCourse> courses_;  // One for each layer group.
  static constexpr BlockIndex kUnknown = kNoBlock - 1;
  std::vector<std::vector<BlockIndex>> whole_;  // What Whole has found: [group][block].
};

}  // namespace kvern
