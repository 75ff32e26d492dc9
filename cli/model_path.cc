#include "cli/model_path.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <system_error>
#include <vector>

namespace kvern::cli {
namespace {

constexpr char kHowToChoose[] = "give one with -m FILE, set KVERN_MODEL, or fetch one: scripts/fetch_model.sh smollm2";

std::vector<std::string> ModelsIn(const std::string& directory) {
  std::vector<std::string> models;
  std::error_code error;
  for (std::filesystem::directory_iterator it(directory, error), end; !error && it != end; it.increment(error)) {
    if (it->path().extension() == ".gguf") models.push_back(it->path().string());
  }
  std::sort(models.begin(), models.end());
  return models;
}

}  // namespace

Result<std::string> ChooseModel(const std::string& given, const std::string& from_environment,
                                const std::string& directory) {
  if (!given.empty()) return given;
  if (!from_environment.empty()) return from_environment;
  const std::vector<std::string> models = ModelsIn(directory);
  if (models.size() == 1) return models.front();
  if (models.empty()) {
    return Status::InvalidArgument("no model: there is no *.gguf file in '" + directory + "'; " + kHowToChoose);
  }
  std::string message = "which model? '" + directory + "' holds " + std::to_string(models.size()) + ":";
  for (const std::string& model : models) message += "\n  " + model;
  return Status::InvalidArgument(message + "\nGive one with -m FILE or set KVERN_MODEL.");
}

Result<std::string> ChooseModel(const std::string& given) {
  const char* from_environment = std::getenv("KVERN_MODEL");
  return ChooseModel(given, from_environment != nullptr ? from_environment : "", "models");
}

}  // namespace kvern::cli
