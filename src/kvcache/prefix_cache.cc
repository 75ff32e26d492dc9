#include "kvcache/prefix_cache.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "kvcache/policies/policy_registry.h"
#include "kvcache/prefix_cache_matcher.h"

namespace kvern {

Result<std::unique_ptr<PrefixCache>> PrefixCache::Create(KvCache& cache, KeyFields fields, std::string_view policy) {
  KVERN_ASSIGN_OR_RETURN(const PolicyEntry* const entry, FindPolicy(policy));
  KVERN_CHECK(fields.groups.size() == cache.num_groups());
  std::unique_ptr<PrefixCache> prefix(new PrefixCache(cache, std::move(fields), *cache.spec().placement));
  for (size_t g = 0; g < cache.num_groups(); ++g) {
    BlockPool& pool = cache.pool(g);
    KVERN_CHECK(pool.layout().block_size() == prefix->block_size());
    const bool sees_all = cache.spec().groups[g].window == 0;
    prefix->groups_.push_back(
        std::make_unique<GroupCache>(pool, sees_all, entry->make(static_cast<uint32_t>(pool.total_blocks()))));
  }
  return prefix;
}

KeyChain PrefixCache::NewChain(std::string_view salt, std::string_view client) {
  auto tenant = tenants_.find(salt);
  if (tenant == tenants_.end()) {
    Tenant added = {.number = static_cast<uint32_t>(tenants_.size()), .roots = {}};
    for (uint32_t g = 0; g < groups_.size(); ++g) added.roots.push_back(RootKey(fields_, g, salt));
    tenant = tenants_.emplace(salt, std::move(added)).first;
    uses_.emplace_back();
  }
  auto known = clients_.find(client);
  if (known == clients_.end()) known = clients_.emplace(client, static_cast<uint32_t>(clients_.size())).first;
  return KeyChain(tenant->second.roots, {tenant->second.number, known->second}, fields_.block_size);
}

PrefixMatch PrefixCache::Match(std::span<const TokenId> tokens, uint64_t max_tokens, KeyChain& chain) const {
  chain.Extend(tokens);
  return Matcher(*this, tokens, chain).Find(placement_.reuses_blocks() ? max_tokens : 0);
}

PrefixMatch PrefixCache::MatchWithRoom(std::span<const TokenId> tokens, uint64_t max_tokens, KeyChain& chain,
                                       const SequenceCache& sequence) const {
  for (;;) {
    PrefixMatch match = Match(tokens, max_tokens, chain);
    // What was found must not make room for its own copy.
    const BlockCounts needed = Sum(match.num_idle, NumCopied(match.num_tokens, sequence));
    if (match.num_tokens == 0 || FitsInto(needed, AvailableBlocks())) return match;
    max_tokens = placement_.shares_blocks() ? match.num_tokens - match.num_partial_tokens : 0;
  }
}

PrefixMatch PrefixCache::Reacquire(std::span<const TokenId> tokens, uint64_t max_tokens, KeyChain& chain,
                                   SequenceCache& sequence) {
  KVERN_CHECK(sequence.num_tokens() == 0);
  PrefixMatch match = MatchWithRoom(tokens, max_tokens, chain, sequence);
  if (match.num_tokens == 0) return match;
  std::vector<BlockLease> held;
  for (size_t g = 0; g < groups_.size(); ++g) held.push_back(cache_.pool(g).Share(match.blocks[g]));
  KVERN_CHECK(MakeRoom(NumCopied(match.num_tokens, sequence)));
  KVERN_CHECK(sequence.Adopt(match.blocks, match.num_tokens).ok());
  chain.SetPublished(match.num_tokens / block_size());
  return match;
}

PrefixMatch PrefixCache::Acquire(std::span<const TokenId> tokens, uint64_t max_tokens, KeyChain& chain,
                                 SequenceCache& sequence) {
  PrefixMatch match = Reacquire(tokens, max_tokens, chain, sequence);
  for (size_t g = 0; g < match.blocks.size(); ++g) {
    for (const BlockIndex block : match.blocks[g]) {
      if (block != kNoBlock) groups_[g]->CountHit(block);
    }
  }
  ++counters_.lookups;
  counters_.lookup_tokens += max_tokens;
  counters_.hit_tokens += match.num_tokens;
  counters_.copied_tokens += placement_.shares_blocks() ? match.num_partial_tokens : match.num_tokens;
  uses_[chain.owner().salt].lookup_tokens += max_tokens;
  uses_[chain.owner().salt].hit_tokens += match.num_tokens;
  return match;
}

BlockCounts PrefixCache::NumCopied(uint64_t num_tokens, const SequenceCache& sequence) const {
  if (!placement_.shares_blocks()) return sequence.NumMissing(num_tokens);
  BlockCounts counts = {};
  for (size_t g = 0; g < groups_.size(); ++g) counts[g] = num_tokens % block_size() == 0 ? 0 : 1;
  return counts;
}

Status PrefixCache::Fork(const SequenceCache& from, SequenceCache& to) {
  (void)MakeRoom(NumCopied(from.num_tokens(), to));  // Where it is too little, Fork says so with the numbers.
  return to.Fork(from);
}

void PrefixCache::Commit(std::span<const TokenId> tokens, uint64_t count, KeyChain& chain, SequenceCache& sequence) {
  sequence.MarkComputed(count);
  if (placement_.shares_blocks()) Publish(tokens, chain, sequence);
  for (const auto& group : groups_) group->SetDropping(true);
  sequence.DropUnseen();
  for (const auto& group : groups_) group->SetDropping(false);
}

void PrefixCache::Finish(std::span<const TokenId> tokens, KeyChain& chain, SequenceCache& sequence) {
  if (placement_.reuses_blocks()) {
    Publish(tokens, chain, sequence);
    PublishEnd(tokens, chain, sequence);
  }
  sequence.Release();
  chain.SetPublished(0);
}

void PrefixCache::PublishRestored(std::span<const TokenId> tokens, KeyChain& chain, SequenceCache& sequence) {
  const PrefixCounters counters = counters_;
  Publish(tokens, chain, sequence);
  counters_ = counters;
}

void PrefixCache::Publish(std::span<const TokenId> tokens, KeyChain& chain, SequenceCache& sequence) {
  const uint64_t end = sequence.num_tokens() / block_size();
  KVERN_CHECK(tokens.size() >= sequence.num_tokens());
  chain.Extend(tokens.first(end * block_size()));
  for (uint64_t i = chain.num_published(); i < end; ++i) {
    for (size_t g = 0; g < groups_.size(); ++g) {
      const BlockIndex block = sequence.table(g).blocks()[i];
      if (block == kNoBlock || groups_[g]->index().Has(block)) continue;
      const bool is_new = groups_[g]->Publish(block, chain.key(g, i), chain.parent(g, i),
                                              tokens.subspan(i * block_size(), block_size()), chain.owner());
      ++(is_new ? counters_.published : counters_.duplicates);
    }
    in_flight_.End(chain.key(0, i));
  }
  chain.SetPublished(std::max(end, chain.num_published()));
}

void PrefixCache::PublishEnd(std::span<const TokenId> tokens, const KeyChain& chain, SequenceCache& sequence) {
  const uint64_t i = sequence.num_tokens() / block_size();
  const auto end = tokens.first(sequence.num_tokens()).subspan(i * block_size());
  if (end.empty()) return;
  for (size_t g = 0; g < groups_.size(); ++g) {
    const BlockIndex block = sequence.table(g).blocks()[i];
    cache_.pool(g).MarkFull(block);  // Nothing more is written to it.
    const BlockKey& parent = chain.parent(g, i);
    groups_[g]->Publish(block, ChainKey(parent, end), parent, end, chain.owner());
  }
}

bool PrefixCache::MakeRoom(size_t group, uint64_t count) { return groups_[group]->MakeRoom(count) >= count; }

bool PrefixCache::MakeRoom(const BlockCounts& counts) {
  if (!FitsInto(counts, AvailableBlocks())) return false;
  for (size_t g = 0; g < groups_.size(); ++g) KVERN_CHECK(MakeRoom(g, counts[g]));
  return true;
}

BlockCounts PrefixCache::AvailableBlocks() const {
  BlockCounts blocks = {};
  for (size_t g = 0; g < groups_.size(); ++g) {
    blocks[g] = groups_[g]->pool().free_blocks() + groups_[g]->pool().idle_blocks();
  }
  return blocks;
}

void PrefixCache::BeginCompute(const PrefixMatch& match, const KeyChain& chain, uint64_t owner) {
  if (!placement_.shares_blocks()) return;
  for (uint64_t i = match.num_tokens / block_size(); i < chain.num_keys(); ++i) {
    bool is_there = true;
    for (size_t g = 0; g < groups_.size(); ++g) is_there = is_there && groups_[g]->index().HasKey(chain.key(g, i));
    if (!is_there) in_flight_.Begin(chain.key(0, i), owner);
  }
}

std::optional<uint64_t> PrefixCache::ComputedBy(const PrefixMatch& match, const KeyChain& chain) const {
  const uint64_t i = match.num_tokens / block_size();
  return i < chain.num_keys() ? in_flight_.OwnerOf(chain.key(0, i)) : std::nullopt;
}

uint64_t PrefixCache::Clear(std::optional<std::string_view> salt) {
  std::optional<uint32_t> number;
  if (salt.has_value()) {
    const auto tenant = tenants_.find(*salt);
    if (tenant == tenants_.end()) return 0;
    number = tenant->second.number;
  }
  uint64_t num_bytes = 0;
  for (const auto& group : groups_) num_bytes += group->Clear(number) * group->pool().layout().block_bytes();
  return num_bytes;
}

std::vector<TenantHolding> PrefixCache::Holdings() const {
  std::vector<TenantHolding> holdings(tenants_.size());
  for (const auto& [salt, tenant] : tenants_) {
    holdings[tenant.number].salt = salt;
    holdings[tenant.number].lookup_tokens = uses_[tenant.number].lookup_tokens;
    holdings[tenant.number].hit_tokens = uses_[tenant.number].hit_tokens;
  }
  for (size_t g = 0; g < groups_.size(); ++g) {
    const BlockPool& pool = groups_[g]->pool();
    for (BlockIndex block = 0; block < pool.total_blocks(); ++block) {
      if (!groups_[g]->index().Has(block)) continue;
      const PrefixIndex::Entry& entry = groups_[g]->index().entry(block);
      TenantHolding& holding = holdings[entry.owner.salt];
      ++holding.blocks;
      if (pool.state(block) == BlockState::kIdle) ++holding.idle_blocks;
      holding.bytes += pool.layout().block_bytes();
      if (g == 0) holding.tokens += entry.tokens.size();
    }
  }
  return holdings;
}

PrefixCounters PrefixCache::Counters() const {
  PrefixCounters counters = counters_;
  for (size_t g = 0; g < groups_.size(); ++g) counters.evicted[g] = groups_[g]->num_evicted();
  return counters;
}

}  // namespace kvern
