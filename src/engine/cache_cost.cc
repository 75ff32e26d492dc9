#include "kvern/cache_cost.h"

#include <algorithm>
#include <string>
#include <utility>

#include "engine/cache_plan.h"
#include "gguf/gguf_file.h"
#include "kvcache/placement/placement_registry.h"
#include "model/model_config.h"
#include "platform/file_system.h"

namespace kvern {
namespace {

PlacementUsage UsageOf(const KvCacheSpec& spec, const std::vector<uint32_t>& lengths, uint32_t max_tokens) {
  PlacementUsage usage;
  for (size_t g = 0; g < spec.groups.size(); ++g) {
    const BlockLayout& layout = spec.groups[g].layout;
    const SequenceCourse course = spec.Course(g, max_tokens);
    for (const uint32_t length : lengths) {
      // The worst until now is that of a course that ends here, or what is held for the rest of it.
      const SequenceCourse so_far = spec.Course(g, length);
      const uint64_t held = spec.placement->HeldBlocks(layout, course, length);
      usage.reserved_bytes += held * layout.block_bytes();
      usage.peak_bytes += std::max(held, spec.placement->MostBlocks(layout, so_far)) * layout.block_bytes();
      // The tokens that a later row sees.
      usage.used_bytes += course.span.SlotsSeen(length, 0, length) * layout.block_bytes() / layout.block_size();
    }
  }
  return usage;
}

}  // namespace

CacheCost CostOf(const CachePlan& plan) {
  CacheCost cost;
  for (const KvGroup& group : plan.spec.groups) {
    cost.layer_groups.push_back({.num_layers = group.layout.shape().num_layers,
                                 .window_tokens = group.window,
                                 .bytes_per_token = group.layout.bytes_per_token(),
                                 .block_bytes = group.layout.block_bytes(),
                                 .num_blocks = group.num_blocks});
    cost.bytes_per_token += group.layout.bytes_per_token();
  }
  cost.budget_bytes = plan.budget_bytes;
  cost.context_tokens = plan.context_tokens;
  cost.sequence_bytes = plan.spec.BytesOf(plan.spec.MostBlocks(plan.context_tokens));
  return cost;
}

std::vector<std::string> PlacementNames() {
  std::vector<std::string> names;
  for (const Placement* placement : AllPlacements()) names.emplace_back(placement->Name());
  return names;
}

Result<std::vector<PlacementUsage>> ComparePlacements(const std::string& path,
                                                      const std::vector<CacheOptions>& candidates,
                                                      const std::vector<uint32_t>& lengths, uint32_t max_tokens) {
  for (const uint32_t length : lengths) {
    if (length >= 1 && length <= max_tokens) continue;
    return Status::InvalidArgument("a sequence of " + std::to_string(length) + " tokens, expected 1 to " +
                                   std::to_string(max_tokens));
  }
  KVERN_ASSIGN_OR_RETURN(const GgufFile file, GgufFile::Open(PosixFileSystem(), path));
  KVERN_ASSIGN_OR_RETURN(const ModelConfig config, ReadModelConfig(file));
  std::vector<PlacementUsage> usages;
  for (const CacheOptions& candidate : candidates) {
    KVERN_RETURN_IF_ERROR(candidate.Validate());
    EngineOptions options;
    options.prefill_chunk = 1;
    options.cache = candidate;
    const Result<KvCacheSpec> spec = MakeCacheSpec(options, config);
    usages.push_back(spec.ok() ? UsageOf(*spec, lengths, max_tokens) : PlacementUsage());
    usages.back().placement = candidate.placement;
    usages.back().block_size = candidate.block_size;
    usages.back().unavailable = spec.status().message();
  }
  return usages;
}

}  // namespace kvern
