#include "cli/cache_report.h"

#include "cli/format.h"

namespace kvern::cli {
namespace {

constexpr uint32_t kEndless = 1u << 26;  // As much as positions allow: of no interest as a number.

std::string SpanText(const LayerGroupCost& group) {
  return FormatCount(group.num_layers) + " layers that see " +
         (group.window_tokens == 0 ? "all tokens" : FormatCount(group.window_tokens) + " tokens");
}

}  // namespace

std::string CacheCostText(const CacheCost& cost, const CacheOptions& options) {
  std::string text = "KV cache: " + FormatCount(cost.bytes_per_token) + " bytes per token; budget " +
                     FormatBytes(cost.budget_bytes) + ", " + options.placement + ", blocks of " +
                     FormatCount(options.block_size) + "; longest context ";
  text += cost.context_tokens >= kEndless ? "unlimited" : FormatCount(cost.context_tokens) + " tokens";
  text += " in " + FormatCount(cost.sequence_bytes) + " bytes";
  if (cost.layer_groups.size() == 1 && cost.layer_groups[0].window_tokens == 0) return text;
  for (const LayerGroupCost& group : cost.layer_groups) {
    text += "\n  " + SpanText(group) + ": " + FormatCount(group.bytes_per_token) + " bytes per token, " +
            FormatCount(group.num_blocks) + " blocks of " + FormatCount(group.block_bytes) + " bytes";
  }
  return text;
}

std::string CacheStatsText(const EngineStats& stats) {
  const CacheStats& cache = stats.cache;
  return FormatTable({
      {"KV cache", "bytes"},
      {"total", FormatCount(cache.total_bytes)},
      {"free", FormatCount(cache.free_bytes)},
      {"filling", FormatCount(cache.filling_bytes)},
      {"full", FormatCount(cache.full_bytes)},
      {"idle", FormatCount(cache.idle_bytes)},
      {"used at the peak", FormatCount(cache.peak_used_bytes)},
      {"copied", FormatCount(cache.copied_bytes)},
  });
}

}  // namespace kvern::cli
