// Where tests find the real models and the golden values; tests skip with a message where one is absent.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <string>

namespace kvern {

// models/SmolLM2-135M-Instruct.Q4_1.gguf (tests run in the repository's root), or "" where `make test` has not fetched
// it.
inline std::string SmolLm2Path() {
  const std::string path = "models/SmolLM2-135M-Instruct.Q4_1.gguf";
  return std::filesystem::exists(path) ? path : "";
}

// Likewise models/gemma-3-270m-q4_k_m.gguf: scripts/fetch_model.sh gemma3.
inline std::string Gemma3Path() {
  const std::string path = "models/gemma-3-270m-q4_k_m.gguf";
  return std::filesystem::exists(path) ? path : "";
}

// A file below $KVERN_TEST_DATA, or "" where that is unset or has no such file.
inline std::string TestDataPath(const std::string& name) {
  const char* root = std::getenv("KVERN_TEST_DATA");
  if (root == nullptr) return "";
  const std::string path = std::string(root) + "/" + name;
  return std::filesystem::exists(path) ? path : "";
}

}  // namespace kvern
