// Engine: start reading here.
//
//   kvern::EngineOptions options;
//   options.model_path = "model.gguf";
//   auto engine = kvern::Engine::Open(options);            // Result<std::unique_ptr<Engine>>
//   auto tokens = (*engine)->tokenizer().Encode("The capital of France is");
//   auto stream = (*engine)->Submit({.prompt = *tokens, .max_tokens = 32});
//   while (auto event = stream->Next()) std::cout << event->text << std::flush;
//
// An Engine owns one model, its KV cache and one engine thread that runs all steps. Its functions may be called from
// any thread. Never twice: the keys and values of a token are computed once and kept in blocks, within the byte budget
// of CacheOptions; logits are bit for bit those of the uncached forward pass.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "kvern/cache_cost.h"
#include "kvern/model_info.h"
#include "kvern/options.h"
#include "kvern/request.h"
#include "kvern/scoring.h"
#include "kvern/stats.h"
#include "kvern/status.h"
#include "kvern/token_stream.h"
#include "kvern/tokenizer.h"

namespace kvern {

// Called while a model loads, with the bytes done and their total; false cancels the load.
using LoadProgress = std::function<bool(uint64_t bytes_done, uint64_t bytes_total)>;

class Engine {
 public:
  // Loads the model and reserves the cache. Every limit is checked before anything large is allocated.
  static Result<std::unique_ptr<Engine>> Open(const EngineOptions& options, const LoadProgress& progress = {});
  virtual ~Engine() = default;  // Cancels what still runs.

  // Queues a request. kInvalidArgument for bad options or a prompt longer than the context (with both numbers),
  // kResourceExhausted where it can never fit the budget (with bytes needed and there), kUnavailable where the queue is
  // full.
  virtual Result<TokenStream> Submit(Request request) = 0;

  // Queues `count` answers to one prompt, which is computed once: full blocks of it are shared, not copied. Answer i is
  // that of Submit with request.choice_index + i, token for token, and a stream of its own: any of them may end or be
  // cancelled at any time. They start together, so count is at most max_sequences. Errors as for Submit;
  // kResourceExhausted also where all answers together can never fit the budget. Without the cache each answer computes
  // the prompt for itself.
  virtual Result<std::vector<TokenStream>> SubmitChoices(Request request, uint32_t count) = 0;

  // Scores tokens; waits for the result. kInvalidArgument as for Submit; kCancelled when `progress` says so.
  virtual Result<std::vector<TokenScore>> Score(const ScoreRequest& request, const ScoreProgress& progress = {}) = 0;

  virtual const Tokenizer& tokenizer() const = 0;
  virtual const ModelInfo& model_info() const = 0;
  // The options in force: defaults resolved (context, threads, target, budget).
  virtual const EngineOptions& options() const = 0;
  // What a token and a sequence cost, and what the budget holds; fixed when the engine is opened.
  virtual const CacheCost& cache_cost() const = 0;
  virtual EngineStats Stats() const = 0;

  // What of whom stands in the cache, one entry for each salt that has come. Waits for the step at hand, as the next.
  virtual std::vector<TenantHolding> Holdings() = 0;
  // Lets go what idle blocks hold and what is kept for a time (Request::keep_seconds), of one salt or (nullopt) of all;
  // what runs goes on. Returns the bytes that became free.
  virtual uint64_t ClearCache(const std::optional<std::string>& salt) = 0;
};

}  // namespace kvern
