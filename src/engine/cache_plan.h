// CachePlan: what the cache options come to for one model, worked out before anything is allocated.
#pragma once

#include <cstdint>

#include "kvcache/kv_cache.h"
#include "kvern/cache_cost.h"
#include "kvern/options.h"
#include "model/model_config.h"

namespace kvern {

struct CachePlan {
  KvCacheSpec spec;
  uint64_t budget_bytes;           // The one given, or what one sequence of wanted_context_tokens needs.
  uint32_t wanted_context_tokens;  // As asked for, or what options.h says of 0.
  uint32_t context_tokens;         // Of those, what the budget holds.
};

// What each layer group sees and how it is placed; pools are without blocks yet. `options` must be valid.
// kInvalidArgument for a placement that the model's layers cannot have.
Result<KvCacheSpec> MakeCacheSpec(const EngineOptions& options, const ModelConfig& model);

CacheCost CostOf(const CachePlan& plan);

// `options` must be valid. kInvalidArgument for a context longer than the model was trained for, unless every layer sees
// a window that is not, with what is pinned; otherwise as MakeCacheSpec. kResourceExhausted for a budget below one block
// of each layer group, with the bytes that these need.
Result<CachePlan> PlanCache(const EngineOptions& options, const ModelConfig& model);

}  // namespace kvern
