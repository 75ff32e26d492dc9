#include "engine/cache_plan.h"

#include <algorithm>
#include <string>

namespace kvern {
namespace {

constexpr uint32_t kDefaultContextTokens = 8192;

}  // namespace

Result<CachePlan> PlanCache(const EngineOptions& options, const KvShape& shape, uint32_t model_context_tokens) {
  if (options.context_tokens > model_context_tokens) {
    return Status::InvalidArgument(
        "a context of " + std::to_string(options.context_tokens) +
        " tokens is more than the model was trained for: " + std::to_string(model_context_tokens));
  }
  KVERN_ASSIGN_OR_RETURN(const BlockLayout layout, BlockLayout::Create(shape, options.cache.block_size,
                                                                       options.cache.k_type, options.cache.v_type));
  const uint32_t wanted =
      options.context_tokens != 0 ? options.context_tokens : std::min(model_context_tokens, kDefaultContextTokens);
  // At most 2^32 tokens of at most 2^45 bytes may be too many for 64 bits; the layout's limits leave that to us.
  const uint64_t needed_blocks = layout.BlocksFor(wanted);
  if (needed_blocks > ~uint64_t{0} / layout.block_bytes()) {
    return Status::ResourceExhausted("KV cache: a context of " + std::to_string(wanted) + " tokens needs " +
                                     std::to_string(needed_blocks) + " blocks of " +
                                     std::to_string(layout.block_bytes()) + " bytes");
  }
  const uint64_t budget =
      options.cache.budget_bytes != 0 ? options.cache.budget_bytes : needed_blocks * layout.block_bytes();
  const uint64_t num_blocks = budget / layout.block_bytes();
  if (num_blocks == 0) {
    return Status::ResourceExhausted("KV cache: the budget is " + std::to_string(budget) + " bytes, one block of " +
                                     std::to_string(layout.block_size()) + " tokens needs " +
                                     std::to_string(layout.block_bytes()));
  }
  const uint64_t fitting = num_blocks >= needed_blocks ? wanted : num_blocks * layout.block_size();
  return CachePlan{layout, budget, wanted, static_cast<uint32_t>(fitting)};
}

}  // namespace kvern
