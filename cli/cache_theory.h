// The work of attention that theory asks for, to hold the engine's counters against.
#pragma once

#include <cstdint>

namespace kvern::cli {

// Query-key products of one head in one layer.
struct StepProducts {
  uint64_t unmasked_uncached = 0;  // n^2: every query with every key.
  uint64_t unmasked_cached = 0;    // 2n - 1: the row and the column that token n adds to the square.
  uint64_t causal_uncached = 0;    // n (n + 1) / 2: every query with the keys up to its own.
  uint64_t causal_cached = 0;      // n: the last query alone.
};

// The step that computes token n of a sequence, n >= 1, in both conventions.
StepProducts LastStepProducts(uint64_t num_tokens);

// Causal products of a whole answer, one head and layer: a prompt of `prompt_tokens` in one step, then one step per
// token until the context has `num_tokens` >= prompt_tokens >= 1.
uint64_t CachedProducts(uint64_t num_tokens);
uint64_t UncachedProducts(uint64_t prompt_tokens, uint64_t num_tokens);

// Keys and values computed in the same answer without a cache, in tokens.
uint64_t UncachedTokens(uint64_t prompt_tokens, uint64_t num_tokens);

}  // namespace kvern::cli
