// Scoring: how likely a model finds given tokens. Perplexity is exp(-mean log_prob).
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "kvern/tokenizer.h"

namespace kvern {

struct ScoreRequest {
  std::vector<TokenId> tokens;  // At least two, at most the context.
  uint32_t first_scored = 1;    // Tokens from this index (>= 1) on are scored, each given all before it.
};

struct TokenScore {
  float log_prob = 0;  // Natural logarithm of the probability of the token given those before it.
  TokenId most_likely = 0;
};

// Called between steps with the tokens done so far; false cancels.
using ScoreProgress = std::function<bool(uint64_t tokens_done)>;

}  // namespace kvern
