#include "kvcache/prefix_cache_matcher.h"

#include <algorithm>

namespace kvern {

PrefixCache::Matcher::Matcher(const PrefixCache& cache, std::span<const TokenId> tokens, const KeyChain& chain)
    : cache_(cache), tokens_(tokens), chain_(chain), block_size_(cache.block_size()) {
  for (size_t g = 0; g < cache.groups_.size(); ++g) {
    courses_.push_back(cache.cache_.spec().Course(g, tokens.size()));
    whole_.emplace_back(chain.num_keys(), kUnknown);
  }
}

BlockIndex PrefixCache::Matcher::Whole(size_t group, uint64_t i) {
  if (i >= whole_[group].size()) return kNoBlock;
  BlockIndex& block = whole_[group][i];
  if (block == kUnknown) {
    const auto tokens = tokens_.subspan(i * block_size_, block_size_);
    block = cache_.groups_[group]->index().Find(chain_.key(group, i), tokens).value_or(kNoBlock);
  }
  return block;
}

PrefixIndex::Beginning PrefixCache::Matcher::Beginning(size_t group, uint64_t i) {
  if (const BlockIndex block = Whole(group, i); block != kNoBlock) return {block, static_cast<uint32_t>(block_size_)};
  const auto rest = tokens_.subspan(i * block_size_);
  return cache_.groups_[group]
      ->index()
      .FindBeginning(chain_.parent(group, i), rest.first(std::min<size_t>(rest.size(), block_size_)))
      .value_or(PrefixIndex::Beginning{kNoBlock, 0});
}

uint64_t PrefixCache::Matcher::NumLeading(size_t group, uint64_t max_tokens) {
  uint64_t i = 0;
  while (i * block_size_ < max_tokens && Whole(group, i) != kNoBlock) ++i;
  const uint64_t num_whole = i * block_size_;
  return num_whole >= max_tokens ? max_tokens : std::min(max_tokens, num_whole + Beginning(group, i).num_tokens);
}

uint64_t PrefixCache::Matcher::FindMissing(size_t group, uint64_t num_tokens, uint64_t end) {
  const SequenceCourse& course = courses_[group];
  const uint64_t first_seen = course.WindowBegin(num_tokens) / block_size_;
  for (uint64_t i = end; i-- > first_seen;) {
    if (Whole(group, i) == kNoBlock) return i;
  }
  if (course.span.pinned.empty()) return end;
  for (uint64_t i = 0; i < std::min(first_seen, end); ++i) {
    if (course.IsPinned(i, static_cast<uint32_t>(block_size_)) && Whole(group, i) == kNoBlock) return i;
  }
  return end;
}

// Where a row at some position misses a block, so do all rows after that block up to it: the next candidate ends inside
// the missing block.
PrefixMatch PrefixCache::Matcher::Find(uint64_t max_tokens) {
  uint64_t limit = std::min<uint64_t>(max_tokens, tokens_.size());
  for (size_t g = 0; g < courses_.size(); ++g) {
    if (cache_.groups_[g]->sees_all()) limit = std::min(limit, NumLeading(g, limit));
  }
  uint64_t block = limit / block_size_, rest = limit % block_size_;
  while (block + rest > 0) {
    for (size_t g = 0; g < courses_.size() && rest > 0; ++g) {
      rest = std::min<uint64_t>(rest, Beginning(g, block).num_tokens);
    }
    const uint64_t num_tokens = block * block_size_ + rest;
    uint64_t missing = block;
    for (size_t g = 0; g < courses_.size(); ++g) {
      if (!cache_.groups_[g]->sees_all()) missing = std::min(missing, FindMissing(g, num_tokens, block));
    }
    if (missing == block) return Build(num_tokens);
    block = missing;
    rest = block_size_ - 1;
  }
  return Build(0);
}

PrefixMatch PrefixCache::Matcher::Build(uint64_t num_tokens) {
  PrefixMatch match;
  match.num_tokens = num_tokens;
  match.num_partial_tokens = num_tokens % block_size_;
  match.blocks.resize(courses_.size());
  const uint64_t num_whole = num_tokens / block_size_;
  const auto is_idle = [this](size_t group, BlockIndex block) {
    return cache_.groups_[group]->pool().state(block) == BlockState::kIdle;
  };
  for (size_t g = 0; g < courses_.size(); ++g) {
    const uint64_t first_seen = courses_[g].WindowBegin(num_tokens) / block_size_;
    std::vector<BlockIndex>& blocks = match.blocks[g];
    for (uint64_t i = 0; i < num_whole; ++i) {
      const bool is_seen = i >= first_seen || courses_[g].IsPinned(i, static_cast<uint32_t>(block_size_));
      blocks.push_back(is_seen ? Whole(g, i) : kNoBlock);
      if (is_seen) ++(is_idle(g, blocks.back()) ? match.num_idle : match.num_leased)[g];
    }
    if (match.num_partial_tokens == 0) continue;
    blocks.push_back(Beginning(g, num_whole).block);
    if (is_idle(g, blocks.back())) ++match.num_idle[g];
  }
  return match;
}

}  // namespace kvern
