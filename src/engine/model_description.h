// ModelInfo from an opened model file.
#pragma once

#include "gguf/gguf_file.h"
#include "kvern/model_info.h"

namespace kvern {

// Reads metadata and the tensor list only. A file that kvern cannot run is described with is_supported = false.
ModelInfo DescribeModel(const GgufFile& file);

}  // namespace kvern
