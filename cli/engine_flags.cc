#include "cli/engine_flags.h"

#include <CLI/CLI.hpp>
#include <utility>
#include <vector>

#include "cli/format.h"
#include "cli/interrupt.h"
#include "cli/model_path.h"
#include "cli/output.h"
#include "kvern/eviction_policy.h"

namespace kvern::cli {
namespace {

constexpr char kEngineGroup[] = "Engine";

constexpr char kK8V4[] = "k8v4";  // A pair that is worth a name.

Result<KvType> ParseKvTypeFlag(const char* flag, const std::string& name) {
  const Result<KvType> type = ParseKvType(name);
  if (type.ok()) return type;
  return Status::InvalidArgument(std::string(flag) + ": " + type.status().message());
}

// The help names the values itself, so the validator adds nothing to it.
CLI::Validator OneOf(std::vector<std::string> names) { return CLI::IsMember(std::move(names)).description(""); }

}  // namespace

void EngineFlags::AddModelTo(CLI::App& app) {
  app.add_option("-m,--model", model, "GGUF file; else $KVERN_MODEL, else the only file in models/")
      ->type_name("FILE")
      ->group(kEngineGroup);
}

void EngineFlags::AddAllTo(CLI::App& app, const std::string& context_help) {
  AddModelTo(app);
  app.add_option("-c,--ctx-size", context_tokens, context_help)->type_name("TOKENS")->group(kEngineGroup);
  app.add_option("-t,--threads", num_threads, "Worker threads; default: one per usable CPU")
      ->type_name("N")
      ->group(kEngineGroup);
  app.add_option("--isa", isa,
                 "Kernels: auto, generic, avx2, avx2-vnni, avx512, avx512-vnni, neon; all give the same bits")
      ->check(OneOf({"auto", "generic", "avx2", "avx2-vnni", "avx512", "avx512-vnni", "neon"}))
      ->capture_default_str()
      ->type_name("NAME")
      ->group(kEngineGroup);
  app.add_option("--activations", activations, "int8: fast; f32: the reference")
      ->check(OneOf({"int8", "f32"}))
      ->capture_default_str()
      ->type_name("MODE")
      ->group(kEngineGroup);
  app.add_option("--kv-type", kv_type,
                 "How the cache stores keys and values: f32, f16, bf16, fp8_e4m3, fp8_e5m2, int8, int4, int4_head; or "
                 "k8v4: keys as int8, values as int4")
      ->capture_default_str()
      ->type_name("TYPE")
      ->group(kEngineGroup);
  app.add_option("--k-type", k_type, "The same for keys alone")->type_name("TYPE")->group(kEngineGroup);
  app.add_option("--v-type", v_type, "The same for values alone")->type_name("TYPE")->group(kEngineGroup);
  app.add_option("--block-size", block_size, "Tokens per cache block, a multiple of 16")
      ->capture_default_str()
      ->type_name("TOKENS")
      ->group(kEngineGroup);
  app.add_option("--kv-budget", kv_budget,
                 "Memory for keys and values, like 512MiB or 2GiB; default: what the context needs")
      ->type_name("BYTES")
      ->group(kEngineGroup);
  app.add_option("--placement", placement,
                 "How the cache lies in memory: paged, contiguous, growing, or ring (with --window); same answer")
      ->check(OneOf(PlacementNames()))
      ->capture_default_str()
      ->type_name("NAME")
      ->group(kEngineGroup);
  app.add_option("--window", window_tokens,
                 "Each token sees this many last ones, and the cache keeps no others: text without end in fixed memory")
      ->type_name("TOKENS")
      ->group(kEngineGroup);
  app.add_option("--sinks", num_sinks, "With --window: this many first tokens stay in sight; 4 keep most models steady")
      ->type_name("TOKENS")
      ->group(kEngineGroup);
  app.add_option("--global", global_tokens, "With --window: positions that stay in sight too, like 100-149,300")
      ->type_name("RANGES")
      ->group(kEngineGroup);
  app.add_option(
         "--spill-dir", spill_directory,
         "Admit requests by what they need now; those that must wait for memory keep their cache in a file here")
      ->type_name("DIR")
      ->group(kEngineGroup);
  app.add_option("--spill-limit", spill_limit, "Most bytes of that file, like 4GiB; default: 8GiB")
      ->type_name("BYTES")
      ->group(kEngineGroup);
  app.add_option("--prefill-chunk", prefill_chunk, "Most prompt tokens per step")
      ->capture_default_str()
      ->type_name("TOKENS")
      ->group(kEngineGroup);
  app.add_option("--step-budget", step_budget_ms,
                 "While answers stream, a step takes about so long: fewer prompt tokens go into it; 0: no limit")
      ->capture_default_str()
      ->type_name("MS")
      ->group(kEngineGroup);
  app.add_flag("--no-reuse", is_reuse_off,
               "Let blocks go when their request ends, instead of keeping them for whoever begins alike: same text")
      ->group(kEngineGroup);
  app.add_option("--eviction", eviction_policy,
                 "Which kept blocks make room first: slru, or lru, which a long scan empties")
      ->check(OneOf(EvictionPolicyNames()))
      ->capture_default_str()
      ->type_name("NAME")
      ->group(kEngineGroup);
  app.add_flag("--overcommit", overcommits,
               "Admit requests by what they need now; the last ones wait where answers outgrow the memory together")
      ->group(kEngineGroup);
  app.add_flag("--no-cache", is_cache_off, "Compute all keys and values again in every step: same text, quadratic work")
      ->group(kEngineGroup);
  AddLossyTo(app);
}

void EngineFlags::AddLossyTo(CLI::App& app) {
  app.add_flag("--allow-lossy", lossy.is_allowed, "Run with a KV type even where its gate has failed on this model")
      ->group(kEngineGroup);
  app.add_option("--verdicts", lossy.verdicts_path,
                 "Where kvern quality keeps its verdicts; default: verdicts.json in the user's cache directory")
      ->type_name("FILE")
      ->group(kEngineGroup);
}

Result<EngineOptions> EngineFlags::ToOptions() const {
  EngineOptions options;
  KVERN_ASSIGN_OR_RETURN(options.model_path, ChooseModel(model));
  options.context_tokens = context_tokens;
  options.num_threads = num_threads;
  options.isa = isa;
  options.activations = activations == "f32" ? ActivationMode::kF32 : ActivationMode::kInt8;
  options.prefill_chunk = prefill_chunk;
  options.step_budget_ms = step_budget_ms;
  options.cache.reuses_prefixes = !is_reuse_off;
  options.cache.eviction_policy = eviction_policy;
  options.cache.overcommits = overcommits;
  options.cache.is_enabled = !is_cache_off;
  options.cache.block_size = block_size;
  options.cache.placement = placement;
  options.cache.window_tokens = window_tokens;
  options.cache.num_sinks = num_sinks;
  if (!global_tokens.empty()) {
    Result<std::vector<TokenRange>> ranges = ParseRanges(global_tokens);
    if (!ranges.ok()) return Status::InvalidArgument("--global: " + ranges.status().message());
    options.cache.global_tokens = std::move(ranges).value();
  }
  options.cache.spill_directory = spill_directory;
  if (!spill_limit.empty()) {
    const Result<uint64_t> bytes = ParseBytes(spill_limit);
    if (!bytes.ok()) return Status::InvalidArgument("--spill-limit: " + bytes.status().message());
    options.cache.spill_limit_bytes = *bytes;
  }
  if (kv_type == kK8V4) {
    options.cache.k_type = KvType::kI8;
    options.cache.v_type = KvType::kI4;
  } else {
    KVERN_ASSIGN_OR_RETURN(options.cache.k_type, ParseKvTypeFlag("--kv-type", kv_type));
    options.cache.v_type = options.cache.k_type;
  }
  if (!k_type.empty()) {
    KVERN_ASSIGN_OR_RETURN(options.cache.k_type, ParseKvTypeFlag("--k-type", k_type));
  }
  if (!v_type.empty()) {
    KVERN_ASSIGN_OR_RETURN(options.cache.v_type, ParseKvTypeFlag("--v-type", v_type));
  }
  if (!kv_budget.empty()) {
    const Result<uint64_t> bytes = ParseBytes(kv_budget);
    if (!bytes.ok()) return Status::InvalidArgument("--kv-budget: " + bytes.status().message());
    if (*bytes == 0) return Status::InvalidArgument("--kv-budget: 0 bytes hold no token; leave it out for the default");
    options.cache.budget_bytes = *bytes;
  }
  KVERN_RETURN_IF_ERROR(options.Validate());
  return options;
}

std::string KvTypesName(const CacheOptions& cache) {
  if (cache.k_type == cache.v_type) return std::string(KvTypeName(cache.k_type));
  if (cache.k_type == KvType::kI8 && cache.v_type == KvType::kI4) return kK8V4;
  return std::string(KvTypeName(cache.k_type)) + "/" + std::string(KvTypeName(cache.v_type));
}

const char* ActivationModeName(ActivationMode mode) { return mode == ActivationMode::kF32 ? "f32" : "int8"; }

Result<std::unique_ptr<Engine>> OpenEngine(const EngineOptions& options) {
  const OnInterrupt keep_running;  // The progress callback ends the load in order.
  ProgressBar bar("loading", 0);
  return Engine::Open(options, [&](uint64_t done, uint64_t total) {
    bar.SetTotal(total);
    bar.Update(done);
    return !WasInterrupted();
  });
}

}  // namespace kvern::cli
