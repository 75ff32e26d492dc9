// CachePlan: what the cache options come to for one model, worked out before anything is allocated.
#pragma once

#include <cstdint>

#include "kvcache/block_layout.h"
#include "kvern/options.h"

namespace kvern {

struct CachePlan {
  BlockLayout layout;
  uint64_t budget_bytes;           // The one given, or what one sequence of wanted_context_tokens needs.
  uint32_t wanted_context_tokens;  // As asked for, or the model's, at most 8192.
  uint32_t context_tokens;         // Of those, what fits the budget.
};

// `options` must be valid. kInvalidArgument for a context longer than the model's `model_context_tokens`;
// kResourceExhausted for a budget below one block, with the bytes that one needs.
Result<CachePlan> PlanCache(const EngineOptions& options, const KvShape& shape, uint32_t model_context_tokens);

}  // namespace kvern
