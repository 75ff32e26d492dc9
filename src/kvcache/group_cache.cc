#include "kvcache/group_cache.h"

#include <utility>

#include "base/check.h"

namespace kvern {

GroupCache::GroupCache(BlockPool& pool, bool sees_all, std::unique_ptr<EvictionPolicy> policy)
    : pool_(pool),
      sees_all_(sees_all),
      policy_(std::move(policy)),
      index_(static_cast<uint32_t>(pool.total_blocks())),
      ghosts_(pool.total_blocks()) {
  pool_.SetIdleObserver(this);
}

GroupCache::~GroupCache() {
  Clear(std::nullopt);
  pool_.SetIdleObserver(nullptr);
}

bool GroupCache::Publish(BlockIndex block, const BlockKey& key, const BlockKey& parent, std::span<const TokenId> tokens,
                         const BlockOwner& owner) {
  KVERN_CHECK(pool_.state(block) == BlockState::kFull);
  if (index_.Has(block)) return false;
  if (const auto same = index_.FindBeginning(parent, tokens); same.has_value() && same->num_tokens == tokens.size()) {
    return false;
  }
  if (!index_.Insert(block, key, parent, tokens, owner)) return false;
  pool_.Keep(block);
  if (ghosts_.Has(key)) {
    index_.entry(block).num_hits = 1;
    ghosts_.Remove(key);
  }
  const std::optional<BlockIndex> superfluous = index_.FindSuperfluous(block);
  if (superfluous.has_value() && pool_.state(*superfluous) == BlockState::kIdle) Forget(*superfluous);
  return true;
}

void GroupCache::OnIdle(BlockIndex block) {
  const uint32_t num_hits = index_.entry(block).num_hits;
  policy_->OnEvictable(block, {.num_hits = num_hits, .leaves_first = is_dropping_ && num_hits == 0});
}

uint64_t GroupCache::MakeRoom(uint64_t num_free) {
  while (pool_.free_blocks() < num_free && pool_.idle_blocks() > 0) {
    victims_.clear();
    policy_->PickVictims(num_free - pool_.free_blocks(), victims_);
    KVERN_CHECK(!victims_.empty());  // It knows every idle block.
    for (const BlockIndex victim : victims_) {
      if (pool_.state(victim) != BlockState::kIdle) continue;  // It has left for one before it.
      const BlockIndex leaf = sees_all_ ? LeafAfter(victim) : victim;
      ghosts_.Add(index_.entry(leaf).key);
      Forget(leaf);
      ++num_evicted_;
    }
  }
  return pool_.free_blocks();
}

BlockIndex GroupCache::LeafAfter(BlockIndex block) const {
  const auto step = [&](BlockIndex child) {
    if (pool_.state(child) != BlockState::kIdle) return false;
    block = child;
    return true;
  };
  while (index_.AnyChild(index_.entry(block).key, step)) {
  }
  return block;
}

void GroupCache::Forget(BlockIndex block) {
  index_.Remove(block);
  policy_->OnRemoved(block);
  pool_.state(block) == BlockState::kIdle ? pool_.Evict(block) : pool_.StopKeeping(block);
}

uint64_t GroupCache::Clear(std::optional<uint32_t> salt) {
  uint64_t num_freed = 0;
  for (BlockIndex block = 0; block < pool_.total_blocks(); ++block) {
    if (!index_.Has(block) || (salt.has_value() && index_.entry(block).owner.salt != *salt)) continue;
    if (pool_.state(block) == BlockState::kIdle) ++num_freed;
    Forget(block);
  }
  return num_freed;
}

}  // namespace kvern
