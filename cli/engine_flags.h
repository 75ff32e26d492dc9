// The options that every command which runs a model shares, and opening the engine with them.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "cli/codec_check.h"
#include "kvern/engine.h"

namespace CLI {
class App;
}

namespace kvern::cli {

struct EngineFlags {
  std::string model;
  uint32_t context_tokens = 0;
  uint32_t num_threads = 0;
  std::string isa = "auto";
  std::string kv_type = "f16";
  std::string k_type, v_type;  // Where they differ from kv_type; else empty.
  uint32_t block_size = CacheOptions().block_size;
  std::string kv_budget;
  std::string placement = CacheOptions().placement;
  uint32_t window_tokens = 0;
  uint32_t num_sinks = 0;
  std::string global_tokens;
  std::string spill_directory;
  std::string spill_limit;
  std::string activations = "int8";
  uint32_t prefill_chunk = EngineOptions().prefill_chunk;
  uint32_t step_budget_ms = EngineOptions().step_budget_ms;
  bool is_reuse_off = false;
  std::string eviction_policy = CacheOptions().eviction_policy;
  bool overcommits = false;
  bool is_cache_off = false;
  LossyFlags lossy;

  // -m alone, for commands that need no more than the model.
  void AddModelTo(CLI::App& app);
  // All of them. `context_help` says what --ctx-size means for the command.
  void AddAllTo(CLI::App& app, const std::string& context_help);
  // --allow-lossy and --verdicts; part of AddAllTo.
  void AddLossyTo(CLI::App& app);
  // Resolves the model path and checks every option. kInvalidArgument is wrong usage.
  Result<EngineOptions> ToOptions() const;
};

// "int8", "k8v4", or "bf16/f16" for keys and values of two types.
std::string KvTypesName(const CacheOptions& cache);

// "int8" or "f32".
const char* ActivationModeName(ActivationMode mode);

// Engine::Open with a progress bar; Ctrl-C cancels it.
Result<std::unique_ptr<Engine>> OpenEngine(const EngineOptions& options);

}  // namespace kvern::cli
