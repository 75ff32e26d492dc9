#include <string>
#include <string_view>

#include "model/gemma3.h"
#include "model/llama.h"
#include "model/model.h"

namespace kvern {
namespace {

struct Architecture {
  const char* name;  // general.architecture
  Result<ModelConfig> (*read_config)(const GgufFile& file);
  Result<std::unique_ptr<Model>> (*load)(const GgufFile& file, const ModelOptions& options);
};

constexpr Architecture kArchitectures[] = {
    {"llama", ReadLlamaConfig, LoadLlama},
    {"gemma3", ReadGemma3Config, LoadGemma3},
};

Result<const Architecture*> FindArchitecture(const GgufFile& file) {
  KVERN_ASSIGN_OR_RETURN(const std::string_view name, file.GetString("general.architecture"));
  std::string known;
  for (const Architecture& a : kArchitectures) {
    if (name == a.name) return &a;
    known += (known.empty() ? "" : ", ") + std::string(a.name);
  }
  return Status::Unsupported(file.path() + ": architecture " + QuotedForMessage(name) +
                             " is not supported; kvern runs: " + known);
}

}  // namespace

Result<std::string> ReadArchitecture(const GgufFile& file) {
  KVERN_ASSIGN_OR_RETURN(const Architecture* architecture, FindArchitecture(file));
  return std::string(architecture->name);
}

Result<ModelConfig> ReadModelConfig(const GgufFile& file) {
  KVERN_ASSIGN_OR_RETURN(const Architecture* architecture, FindArchitecture(file));
  return architecture->read_config(file);
}

Result<std::unique_ptr<Model>> LoadModel(const GgufFile& file, const ModelOptions& options) {
  KVERN_ASSIGN_OR_RETURN(const Architecture* architecture, FindArchitecture(file));
  return architecture->load(file, options);
}

}  // namespace kvern
