// What the keys of blocks depend on, put together from where it is known.
#pragma once

#include <string>

#include "kvcache/block_key.h"
#include "kvcache/kv_cache.h"
#include "kvern/options.h"
#include "model/model_config.h"

namespace kvern {

// `spec` must be made from `options` and `model` (MakeCacheSpec). model_digest: as ModelDigest gives it.
KeyFields MakeKeyFields(const EngineOptions& options, const ModelConfig& model, const KvCacheSpec& spec,
                        std::string model_digest);

}  // namespace kvern
