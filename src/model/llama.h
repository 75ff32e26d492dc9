// Architecture "llama": Llama 1 to 3, SmolLM 1 and 2, Mistral and others that share the layer. Source:
// arXiv:2302.13971.
#pragma once

#include <memory>

#include "model/model.h"

namespace kvern {

Result<ModelConfig> ReadLlamaConfig(const GgufFile& file);
Result<std::unique_ptr<Model>> LoadLlama(const GgufFile& file, const ModelOptions& options);

}  // namespace kvern
