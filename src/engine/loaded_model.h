// A model without an engine around it, for measurements that run passes themselves.
#pragma once

#include <functional>
#include <memory>

#include "base/thread_pool.h"
#include "kernels/kernel_table.h"
#include "kvern/options.h"
#include "kvern/tokenizer.h"
#include "model/model.h"

namespace kvern {

struct LoadedModel {
  const KernelTable* kernels = nullptr;
  std::unique_ptr<ThreadPool> workers;  // The model's.
  std::unique_ptr<Model> model;
  std::unique_ptr<Tokenizer> tokenizer;
};

// Loads the model of `options` for its target and threads. `goes_on` is asked while it loads; false cancels.
// Errors as for Engine::Open.
Result<LoadedModel> LoadModelAlone(const EngineOptions& options, const std::function<bool()>& goes_on);

}  // namespace kvern
