#include <string>

#include "model/llama.h"
#include "model/model.h"

namespace kvern {
namespace {

struct Architecture {
  const char* name;  // general.architecture
  Result<std::unique_ptr<Model>> (*load)(const GgufFile& file, const ModelOptions& options);
};

constexpr Architecture kArchitectures[] = {
    {"llama", LoadLlama},
};

}  // namespace

std::vector<std::string> KnownArchitectures() {
  std::vector<std::string> names;
  for (const Architecture& a : kArchitectures) names.emplace_back(a.name);
  return names;
}

Result<std::unique_ptr<Model>> LoadModel(const GgufFile& file, const ModelOptions& options) {
  KVERN_ASSIGN_OR_RETURN(const std::string architecture, ReadArchitecture(file));
  for (const Architecture& a : kArchitectures) {
    if (architecture == a.name) return a.load(file, options);
  }
  std::string known;
  for (const Architecture& a : kArchitectures) known += (known.empty() ? "" : ", ") + std::string(a.name);
  return Status::Unsupported(file.path() + ": architecture \"" + architecture +
                             "\" is not supported; kvern runs: " + known);
}

}  // namespace kvern
