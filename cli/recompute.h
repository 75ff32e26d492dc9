// A window that slides over a cache against recomputing it: kvern ppl --recompute-every.
//
// A cache that slides keeps keys and values which were computed when tokens before the window were still in sight.
// Recomputing gives the same last tokens to the model as a text of their own, for each token anew, which costs a whole
// window per token: so only some tokens are looked at, and both ways score the same ones.
#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "cli/perplexity.h"
#include "kvern/engine.h"

namespace kvern::cli {

class RecomputedWindow {
 public:
  // kInvalidArgument where `cache` has no window, or pins more than first tokens.
  static Result<RecomputedWindow> Create(const CacheOptions& cache, uint32_t every);

  // Every `every`th token from `first_scored` on, of those before which more stands than window and sinks.
  std::vector<size_t> Targets(size_t num_tokens, size_t first_scored) const;
  // The last tokens before `target`, as many as the window has, after the first `num_sinks`; then `target` itself.
  // tokens[0 .. target], which must be a target.
  std::vector<TokenId> Context(std::span<const TokenId> tokens, size_t target, uint32_t num_sinks) const;
  // Tokens that Add gives to the model for one target.
  uint64_t TokensPerTarget() const;

  // Scores the targets of a text anew. `scores` are those of tokens[first_scored ..] with the cache. `goes_on` gets the
  // number of tokens done, and ends it with kCancelled.
  Status Add(Engine& engine, std::span<const TokenId> tokens, size_t first_scored, std::span<const TokenScore> scores,
             const std::function<bool(uint64_t tokens_done)>& goes_on);

  std::string Text() const;
  nlohmann::ordered_json Json() const;

 private:
  // One way to recompute.
  struct Way {
    uint32_t num_sinks;
    NllMean nll;
    NllMean difference;  // Of the cache from it.
  };

  RecomputedWindow(uint32_t window_tokens, uint32_t num_sinks, uint32_t every);

  uint32_t window_tokens_;
  uint32_t num_sinks_;
  uint32_t every_;
  NllMean cached_;
  std::vector<Way> ways_;  // The window alone; with sinks after them too.
};

}  // namespace kvern::cli
