// The engine from its parts: how Engine::Open and tests make one.
#pragma once

#include <functional>
#include <memory>

#include "base/thread_pool.h"
#include "kernels/kernel_table.h"
#include "kvcache/kv_cache.h"
#include "kvern/block_store.h"
#include "kvern/engine.h"
#include "model/model.h"
#include "platform/prefault.h"

namespace kvern {

struct EngineParts {
  EngineOptions options;               // In force: context_tokens is what `cache` and the model allow.
  uint32_t wanted_context_tokens = 0;  // What the context would be without the budget.
  CacheCost cache_cost;
  ModelInfo model_info;
  const KernelTable* kernels = nullptr;
  std::unique_ptr<ThreadPool> workers;  // The model's; null where the model needs none.
  std::unique_ptr<Tokenizer> tokenizer;
  std::unique_ptr<Model> model;
  std::unique_ptr<KvCache> cache;
  std::unique_ptr<Prefault> prefault;      // Of the cache's memory; may be null.
  std::unique_ptr<BlockStore> store;       // For preempted sequences; may be null.
  std::function<void()> on_engine_thread;  // Runs first on the engine thread; may be empty.
  uint64_t load_us = 0;
};

// Starts the engine thread. kResourceExhausted where the system refuses one.
Result<std::unique_ptr<Engine>> MakeEngine(EngineParts parts);

}  // namespace kvern
