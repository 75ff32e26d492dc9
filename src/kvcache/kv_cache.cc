#include "kvcache/kv_cache.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "base/check.h"

namespace kvern {

BlockCounts Sum(const BlockCounts& a, const BlockCounts& b, uint64_t times) {
  BlockCounts sum = a;
  for (size_t g = 0; g < sum.size(); ++g) sum[g] += b[g] * times;
  return sum;
}

bool FitsInto(const BlockCounts& a, const BlockCounts& b) {
  for (size_t g = 0; g < a.size(); ++g) {
    if (a[g] > b[g]) return false;
  }
  return true;
}

AttentionSpan KvCacheSpec::Span(size_t group) const {
  AttentionSpan span = {.window = groups[group].window};
  if (groups[group].sees_pinned) span.pinned = pinned;
  return span;
}

SequenceCourse KvCacheSpec::Course(size_t group, uint64_t max_tokens) const {
  return {.max_tokens = max_tokens, .max_step_tokens = max_step_tokens, .span = Span(group)};
}

BlockCounts KvCacheSpec::MostBlocks(uint64_t max_tokens) const {
  BlockCounts blocks = {};
  for (size_t g = 0; g < groups.size(); ++g) {
    blocks[g] = placement->MostBlocks(groups[g].layout, Course(g, max_tokens));
  }
  return blocks;
}

BlockCounts KvCacheSpec::SharedBlocks(uint64_t max_tokens, uint64_t num_tokens) const {
  BlockCounts blocks = {};
  for (size_t g = 0; g < groups.size(); ++g) {
    blocks[g] = placement->SharedBlocks(groups[g].layout, Course(g, max_tokens), num_tokens);
  }
  return blocks;
}

BlockCounts KvCacheSpec::PoolBlocks() const {
  BlockCounts blocks = {};
  for (size_t g = 0; g < groups.size(); ++g) blocks[g] = groups[g].num_blocks;
  return blocks;
}

uint64_t KvCacheSpec::BytesOf(const BlockCounts& blocks) const {
  __extension__ using Wide = unsigned __int128;
  Wide bytes = 0;
  for (size_t g = 0; g < groups.size(); ++g) bytes += Wide{blocks[g]} * groups[g].layout.block_bytes();
  return static_cast<uint64_t>(std::min<Wide>(bytes, std::numeric_limits<uint64_t>::max()));
}

Result<std::unique_ptr<KvCache>> KvCache::Create(KvCacheSpec spec, MemoryAllocator& allocator) {
  KVERN_CHECK(spec.placement != nullptr && !spec.groups.empty() && spec.groups.size() <= kMaxLayerGroups);
  std::unique_ptr<KvCache> cache(new KvCache(std::move(spec)));
  for (const KvGroup& group : cache->spec_.groups) {
    KVERN_ASSIGN_OR_RETURN(auto pool, BlockPool::Create(group.layout, group.num_blocks * group.layout.block_bytes(),
                                                        allocator, &cache->meter_));
    cache->pools_.push_back(std::move(pool));
  }
  return cache;
}

CacheStats KvCache::Stats() const {
  CacheStats sum = pools_[0]->Stats();
  for (size_t g = 1; g < pools_.size(); ++g) {
    const CacheStats stats = pools_[g]->Stats();
    sum.total_blocks += stats.total_blocks;
    sum.free_blocks += stats.free_blocks;
    sum.filling_blocks += stats.filling_blocks;
    sum.full_blocks += stats.full_blocks;
    sum.idle_blocks += stats.idle_blocks;
    sum.peak_used_blocks += stats.peak_used_blocks;
    sum.total_bytes += stats.total_bytes;
    sum.free_bytes += stats.free_bytes;
    sum.filling_bytes += stats.filling_bytes;
    sum.full_bytes += stats.full_bytes;
    sum.idle_bytes += stats.idle_bytes;
  }
  return sum;
}

}  // namespace kvern
