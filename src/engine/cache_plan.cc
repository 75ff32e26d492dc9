#include "engine/cache_plan.h"

#include <algorithm>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "kvcache/placement/placement_registry.h"

namespace kvern {
namespace {

constexpr uint32_t kDefaultContextTokens = 8192;
constexpr uint32_t kEverydayTokens = 2048;
constexpr uint32_t kEndlessContextTokens = 1u << 26;  // Positions are 32-bit; this is weeks of text.

// Sinks and global tokens as ascending ranges without overlap.
std::vector<PositionRange> PinnedRanges(const CacheOptions& options) {
  std::vector<PositionRange> ranges;
  if (options.num_sinks > 0) ranges.push_back({0, options.num_sinks});
  for (const TokenRange& range : options.global_tokens) ranges.push_back({range.begin, range.end});
  std::ranges::sort(ranges, {}, &PositionRange::begin);
  std::vector<PositionRange> merged;
  for (const PositionRange& range : ranges) {
    if (!merged.empty() && range.begin <= merged.back().end) {
      merged.back().end = std::max(merged.back().end, range.end);
    } else {
      merged.push_back(range);
    }
  }
  return merged;
}

// A window that moves over positions beyond the trained ones shows a row none from further away than itself; what is
// pinned is seen from PinnedQueryPosition at most (kernels/kv_view.h).
Status CheckContext(const EngineOptions& options, const KvCacheSpec& spec, uint32_t trained_tokens) {
  if (options.cache.window_tokens == 0) {
    if (options.context_tokens <= trained_tokens) return Status::Ok();
    return Status::InvalidArgument("a context of " + std::to_string(options.context_tokens) +
                                   " tokens is more than the model was trained for: " + std::to_string(trained_tokens) +
                                   "; with a window (--window) a sequence may be longer");
  }
  const uint64_t pinned_end = spec.pinned.empty() ? 0 : spec.pinned.back().end;
  if (pinned_end + options.cache.window_tokens > trained_tokens) {
    return Status::InvalidArgument("sinks or global tokens up to " + std::to_string(pinned_end) + " and a window of " +
                                   std::to_string(options.cache.window_tokens) + " are together more than the " +
                                   std::to_string(trained_tokens) + " tokens that the model was trained for");
  }
  if (options.context_tokens <= kEndlessContextTokens) return Status::Ok();
  return Status::InvalidArgument("a context of " + std::to_string(options.context_tokens) + " tokens, expected up to " +
                                 std::to_string(kEndlessContextTokens));
}

uint32_t WantedContext(const EngineOptions& options, const KvCacheSpec& spec, uint32_t trained_tokens) {
  if (options.context_tokens != 0) return options.context_tokens;
  if (options.cache.window_tokens > 0 && spec.placement->gives_back()) return kEndlessContextTokens;
  return std::min(trained_tokens, kDefaultContextTokens);
}

// The longest sequence, of at most `wanted`, that fits `budget_bytes` alone; 0 where not one token does.
uint32_t LongestThatFits(const KvCacheSpec& spec, uint64_t budget_bytes, uint32_t wanted) {
  const auto fits = [&](uint32_t tokens) { return spec.BytesOf(spec.MostBlocks(tokens)) <= budget_bytes; };
  if (fits(wanted)) return wanted;
  uint32_t low = 0, high = wanted;  // `low` fits, `high` does not.
  while (high - low > 1) {
    const uint32_t middle = low + (high - low) / 2;
    (fits(middle) ? low : high) = middle;
  }
  return low;
}

// Cuts the budget into pools: room for one sequence of the context, and the rest as sequences of everyday length need
// it. A layer group with a window holds as much of a short sequence as one without: cut as the longest sequence needs
// it, a long context would leave windows of few sequences only.
void CutBudget(uint64_t budget_bytes, uint32_t context_tokens, KvCacheSpec& spec) {
  __extension__ using Wide = unsigned __int128;
  const BlockCounts longest = spec.MostBlocks(context_tokens);
  const BlockCounts everyday = spec.MostBlocks(std::min(context_tokens, kEverydayTokens));
  const uint64_t everyday_bytes = spec.BytesOf(everyday), rest = budget_bytes - spec.BytesOf(longest);
  uint64_t left = budget_bytes;
  for (size_t g = 0; g < spec.groups.size(); ++g) {
    KvGroup& group = spec.groups[g];
    group.num_blocks = longest[g] + static_cast<uint64_t>(Wide{everyday[g]} * rest / everyday_bytes);
    left -= group.num_blocks * group.layout.block_bytes();
  }
  for (KvGroup& group : spec.groups) {
    group.num_blocks += left / group.layout.block_bytes();
    left %= group.layout.block_bytes();
  }
}

}  // namespace

Result<KvCacheSpec> MakeCacheSpec(const EngineOptions& options, const ModelConfig& model) {
  const CacheOptions& cache = options.cache;
  KvCacheSpec spec;
  KVERN_ASSIGN_OR_RETURN(spec.placement, FindPlacement(cache.placement));
  spec.pinned = PinnedRanges(cache);
  spec.max_step_tokens = options.prefill_chunk;
  for (const LayerGroup& group : model.layer_groups) {
    KVERN_ASSIGN_OR_RETURN(BlockLayout layout,
                           BlockLayout::Create({group.num_layers, model.num_kv_heads, model.head_dim}, cache.block_size,
                                               cache.k_type, cache.v_type));
    const bool sees_all = group.window == 0;
    uint32_t window = sees_all ? cache.window_tokens : group.window;
    if (!sees_all && cache.window_tokens > 0) window = std::min(window, cache.window_tokens);
    spec.groups.push_back({.layout = std::move(layout), .window = window, .sees_pinned = sees_all});
    KVERN_RETURN_IF_ERROR(spec.placement->Check(spec.Span(spec.groups.size() - 1)));
  }
  return spec;
}

Result<CachePlan> PlanCache(const EngineOptions& options, const ModelConfig& model) {
  KVERN_ASSIGN_OR_RETURN(KvCacheSpec spec, MakeCacheSpec(options, model));
  KVERN_RETURN_IF_ERROR(CheckContext(options, spec, model.context_tokens));
  const uint32_t wanted = WantedContext(options, spec, model.context_tokens);
  const uint64_t needed = spec.BytesOf(spec.MostBlocks(wanted));
  if (needed > std::numeric_limits<uint64_t>::max() / (uint64_t{options.cache.budget_contexts} + 1)) {
    return Status::ResourceExhausted("KV cache: a context of " + std::to_string(wanted) +
                                     " tokens needs more bytes than 64 bits can count");
  }
  const uint64_t budget =
      options.cache.budget_bytes != 0 ? options.cache.budget_bytes : needed * options.cache.budget_contexts;
  const uint32_t context = LongestThatFits(spec, budget, wanted);
  if (context == 0) {
    return Status::ResourceExhausted("KV cache: the budget is " + std::to_string(budget) + " bytes, one block of " +
                                     std::to_string(options.cache.block_size) + " tokens for all layers needs " +
                                     std::to_string(spec.BytesOf(spec.MostBlocks(1))) +
                                     ": give more, or take a smaller block_size");
  }
  CutBudget(budget, context, spec);
  return CachePlan{std::move(spec), budget, wanted, context};
}

}  // namespace kvern
