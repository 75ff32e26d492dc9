// Links all of the library: opening a model that is not there must come back with kNotFound.
#include <kvern/engine.h>

#include <cstdio>

int main() {
  kvern::EngineOptions options;
  options.model_path = "no-such-model.gguf";

  const auto engine = kvern::Engine::Open(options);

  std::printf("%s\n", engine.status().ToString().c_str());
  return engine.status().code() == kvern::StatusCode::kNotFound ? 0 : 1;
}
