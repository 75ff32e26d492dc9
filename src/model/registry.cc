#include <string>
#include <string_view>

#include "base/check.h"
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

Result<std::string> ReadArchitecture(const GgufFile& file) {
  KVERN_ASSIGN_OR_RETURN(const std::string_view name, file.GetString("general.architecture"));
  std::string known;
  for (const Architecture& a : kArchitectures) {
    if (name == a.name) return std::string(name);
    known += (known.empty() ? "" : ", ") + std::string(a.name);
  }
  return Status::Unsupported(file.path() + ": architecture " + QuotedForMessage(name) +
                             " is not supported; kvern runs: " + known);
}

Result<std::unique_ptr<Model>> LoadModel(const GgufFile& file, const ModelOptions& options) {
  KVERN_ASSIGN_OR_RETURN(const std::string architecture, ReadArchitecture(file));
  for (const Architecture& a : kArchitectures) {
    if (architecture == a.name) return a.load(file, options);
  }
  CheckFailed(__FILE__, __LINE__, "ReadArchitecture gives names of the table only");
}

}  // namespace kvern
