// Why tokens of a prompt have to be computed.
#include <algorithm>

#include "kvcache/prefix_cache.h"

namespace kvern {

PrefixAudit PrefixCache::Explain(std::span<const TokenId> prompt, const PrefixMatch& match,
                                 const KeyChain& chain) const {
  PrefixAudit audit;
  audit.reused = match.num_tokens;
  if (match.num_tokens >= prompt.size()) return audit;
  if (match.num_tokens + 1 == prompt.size()) {
    audit.last_token = 1;
    return audit;
  }
  const auto was_there = [&](uint64_t i) {
    return std::ranges::any_of(groups_, [&, g = size_t{0}](const auto& group) mutable {
      const BlockKey& key = chain.key(g++, i);
      return group->ghosts().Has(key) || group->index().HasKey(key);
    });
  };
  // The last block in which a cached sequence goes on otherwise. A later one can be met only where an earlier block
  // was there: parents are compared, and a chain goes on only from blocks that once were.
  uint64_t num_known = match.num_tokens / block_size();
  while (num_known < chain.num_keys() && was_there(num_known)) ++num_known;
  const auto rest = prompt.subspan(num_known * block_size());
  for (size_t g = 0; g < groups_.size() && !audit.divergence.has_value(); ++g) {
    const auto sibling = groups_[g]->index().FindDivergence(chain.parent(g, num_known),
                                                            rest.first(std::min<size_t>(rest.size(), block_size())));
    if (!sibling.has_value() || num_known * block_size() + sibling->num_tokens == 0) continue;
    const PrefixIndex::Entry& entry = groups_[g]->index().entry(sibling->block);
    if (entry.tenant != chain.tenant()) continue;
    audit.divergence = {.position = num_known * block_size() + sibling->num_tokens,
                        .block_begin = num_known * block_size(),
                        .tokens = entry.tokens};
  }
  // Blocks that were there have left since; after them, what follows a divergence is its doing.
  const uint64_t evicted_end = std::min<uint64_t>(prompt.size(), std::max(match.num_tokens, num_known * block_size()));
  audit.evicted = evicted_end - match.num_tokens;
  const uint64_t diverged_begin =
      audit.divergence.has_value() ? std::max(evicted_end, audit.divergence->position) : prompt.size();
  audit.diverged = prompt.size() - diverged_begin;
  audit.first_time = diverged_begin - evicted_end;
  return audit;
}

}  // namespace kvern
