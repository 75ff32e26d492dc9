// Why tokens of a prompt have to be computed.
#include <algorithm>

#include "base/check.h"
#include "kvcache/prefix_cache.h"

namespace kvern {

bool PrefixCache::WasThere(const KeyChain& chain, uint64_t i) const {
  for (size_t g = 0; g < groups_.size(); ++g) {
    const BlockKey& key = chain.key(g, i);
    if (groups_[g]->ghosts().Has(key) || groups_[g]->index().HasKey(key)) return true;
  }
  return false;
}

// The prompt is cut in three: what was found, what some layer group has or had (so another one had to give it up), and
// what nobody ever had; the last is a divergence where a cached block goes on otherwise from there.
PrefixAudit PrefixCache::Explain(std::span<const TokenId> prompt, const PrefixMatch& match,
                                 const KeyChain& chain) const {
  PrefixAudit audit;
  audit.reused = match.num_tokens;
  if (match.num_tokens >= prompt.size()) return audit;
  if (match.num_tokens + 1 == prompt.size()) {
    audit.last_token = 1;
    return audit;
  }
  uint64_t block = match.num_tokens / block_size();
  while (block < chain.num_keys() && WasThere(chain, block)) ++block;
  const uint64_t begin = block * block_size();
  const auto rest = prompt.subspan(begin, std::min<uint64_t>(prompt.size() - begin, block_size()));
  uint64_t known_end = std::max(match.num_tokens, begin);
  for (size_t g = 0; g < groups_.size(); ++g) {
    const auto alike = groups_[g]->index().FindBeginning(chain.parent(g, block), rest);
    if (alike.has_value()) known_end = std::max(known_end, begin + alike->num_tokens);
  }
  audit.evicted = known_end - match.num_tokens;
  for (size_t g = 0; g < groups_.size() && known_end > 0; ++g) {
    const auto sibling = groups_[g]->index().FindDivergence(chain.parent(g, block), rest);
    if (!sibling.has_value() || begin + sibling->num_tokens != known_end) continue;
    const PrefixIndex::Entry& entry = groups_[g]->index().entry(sibling->block);
    KVERN_CHECK(entry.owner.salt == chain.owner().salt);  // No key of a salt is one of another.
    audit.divergence = {.position = known_end, .block_begin = begin};
    if (entry.owner == chain.owner()) audit.divergence->tokens = entry.tokens;
    break;
  }
  (audit.divergence.has_value() ? audit.diverged : audit.first_time) = prompt.size() - known_end;
  return audit;
}

}  // namespace kvern
