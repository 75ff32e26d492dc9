// Architecture "gemma3": Gemma 3, text only. Most layers see a window, every sixth sees all. Source: arXiv:2503.19786.
#pragma once

#include <memory>

#include "model/model.h"

namespace kvern {

Result<ModelConfig> ReadGemma3Config(const GgufFile& file);
Result<std::unique_ptr<Model>> LoadGemma3(const GgufFile& file, const ModelOptions& options);

}  // namespace kvern
