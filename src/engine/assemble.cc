// Options -> objects: the one place that knows every module.
#include <chrono>
#include <future>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "engine/cache_plan.h"
#include "engine/engine_internal.h"
#include "engine/key_centres.h"
#include "engine/model_description.h"
#include "engine/vocab_from_gguf.h"
#include "gguf/gguf_file.h"
#include "kernels/dispatch.h"
#include "platform/affinity.h"
#include "platform/file_system.h"
#include "platform/huge_pages.h"
#include "platform/prefault.h"
#include "platform/scratch_file.h"
#include "tiers/file_store.h"

namespace kvern {
namespace {

using Clock = std::chrono::steady_clock;

Result<uint32_t> ChooseThreads(uint32_t wanted, size_t num_cpus) {
  if (wanted > num_cpus) {
    return Status::InvalidArgument("num_threads is " + std::to_string(wanted) + ", this process may use " +
                                   std::to_string(num_cpus) + " CPUs");
  }
  return wanted != 0 ? wanted : static_cast<uint32_t>(num_cpus);
}

Result<std::unique_ptr<Tokenizer>> TokenizerOf(const GgufFile& file) {
  KVERN_ASSIGN_OR_RETURN(VocabData vocab, VocabFromGguf(file));
  Result<std::unique_ptr<Tokenizer>> tokenizer = MakeTokenizer(std::move(vocab));
  if (!tokenizer.ok()) return Status(tokenizer.status().code(), file.path() + ": " + tokenizer.status().message());
  return tokenizer;
}

Result<std::unique_ptr<Tokenizer>> TokenizerFor(const GgufFile& file, uint32_t model_vocab_size) {
  KVERN_ASSIGN_OR_RETURN(std::unique_ptr<Tokenizer> tokenizer, TokenizerOf(file));
  if (tokenizer->vocab_size() > model_vocab_size) {
    return Status::Corruption(file.path() + ": the tokenizer has " + std::to_string(tokenizer->vocab_size()) +
                              " tokens, the embedding " + std::to_string(model_vocab_size));
  }
  return tokenizer;
}

std::unique_ptr<Prefault> PrefaultOf(KvCache& cache) {
  std::vector<std::span<uint8_t>> memory;
  for (size_t g = 0; g < cache.num_groups(); ++g) memory.push_back(cache.pool(g).memory());
  return std::make_unique<Prefault>(std::move(memory));
}

// Runs `load` on a thread of its own where the system gives one, else when its result is asked for.
template <typename Load>
auto InBackground(Load load) {
  try {
    return std::async(std::launch::async, load);
  } catch (const std::system_error&) {
    return std::async(std::launch::deferred, load);
  }
}

}  // namespace

Result<std::unique_ptr<Tokenizer>> LoadTokenizer(const std::string& path) {
  KVERN_ASSIGN_OR_RETURN(const GgufFile file, GgufFile::Open(PosixFileSystem(), path));
  return TokenizerOf(file);
}

Result<std::unique_ptr<Engine>> Engine::Open(const EngineOptions& options, const LoadProgress& progress) {
  const auto start = Clock::now();
  KVERN_RETURN_IF_ERROR(options.Validate());
  EngineParts parts;
  parts.options = options;
  const std::vector<int> cpus = UsableCpus();
  KVERN_ASSIGN_OR_RETURN(const uint32_t num_threads, ChooseThreads(options.num_threads, cpus.size()));
  KVERN_ASSIGN_OR_RETURN(parts.kernels, ChooseTarget(options.isa));
  parts.options.isa = parts.kernels->name;

  KVERN_ASSIGN_OR_RETURN(const GgufFile file, GgufFile::Open(PosixFileSystem(), options.model_path));
  KVERN_ASSIGN_OR_RETURN(const ModelConfig config, ReadModelConfig(file));
  KVERN_ASSIGN_OR_RETURN(CachePlan plan, PlanCache(options, config));
  parts.options.context_tokens = plan.context_tokens;
  parts.options.cache.budget_bytes = plan.budget_bytes;
  parts.wanted_context_tokens = plan.wanted_context_tokens;
  parts.cache_cost = CostOf(plan);
  KVERN_ASSIGN_OR_RETURN(parts.cache, KvCache::Create(std::move(plan.spec), HugePageAllocator()));
  if (!options.cache.spill_directory.empty()) {
    KVERN_ASSIGN_OR_RETURN(auto scratch, CreateScratchFile(options.cache.spill_directory));
    parts.store = std::make_unique<FileStore>(std::move(scratch), options.cache.spill_limit_bytes);
  }

  // The tokenizer is built beside the packing of weights: both take a good part of the time to the first token.
  auto tokenizer = InBackground([&file, &config] { return TokenizerFor(file, config.vocab_size); });
  // Workers are pinned where they take every CPU; with fewer, the system places them around other programs.
  const bool is_pinned = num_threads == cpus.size();
  parts.workers = std::make_unique<ThreadPool>(num_threads, [cpus, is_pinned](uint32_t worker) {
    if (is_pinned) PinThisThread(cpus[worker]);
  });
  parts.options.num_threads = parts.workers->num_threads();
  if (is_pinned) parts.on_engine_thread = [cpu = cpus[0]] { PinThisThread(cpu); };

  ModelOptions model_options;
  model_options.activations = options.activations;
  model_options.kernels = parts.kernels;
  model_options.pool = parts.workers.get();
  model_options.allocator = &HugePageAllocator();
  model_options.progress = progress;
  KVERN_ASSIGN_OR_RETURN(parts.model, LoadModel(file, model_options));
  KVERN_ASSIGN_OR_RETURN(parts.tokenizer, tokenizer.get());
  if (options.cache.prefaults) parts.prefault = PrefaultOf(*parts.cache);
  KVERN_RETURN_IF_ERROR(CentreKeys(*parts.cache, *parts.model, *parts.tokenizer));
  parts.model_info = DescribeModel(file);
  parts.load_us =
      static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::microseconds>(Clock::now() - start).count());
  return MakeEngine(std::move(parts));
}

}  // namespace kvern
