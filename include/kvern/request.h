// Request: what a client asks of the engine, in token ids.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "kvern/status.h"
#include "kvern/tokenizer.h"

namespace kvern {

// How the next token is drawn. The order is: logit bias, repetition penalty, presence and frequency penalty,
// temperature, top-k, top-p, min-p, draw. Equal inputs give equal tokens on every target, thread count and batch.
struct SamplingOptions {
  float temperature = 0.0f;     // 0: greedy, the most likely token (lowest id among equals).
  uint32_t top_k = 0;           // Keep the k most likely tokens; 0: all.
  float top_p = 1.0f;           // Keep the fewest tokens whose probabilities reach top_p; 1: all.
  float min_p = 0.0f;           // Drop tokens less likely than min_p times the most likely one; 0: none.
  float repeat_penalty = 1.0f;  // Divides positive (multiplies negative) logits of tokens seen lately; 1: off.
  uint32_t repeat_window = 64;  // How many of the last tokens (prompt included) count as seen lately.
  // Subtracted from the logit of a token that the answer holds c times already: presence_penalty where c > 0, and
  // frequency_penalty * c. Within -2 and 2; 0: off.
  float presence_penalty = 0.0f;
  float frequency_penalty = 0.0f;
  uint64_t seed = 0;
  std::vector<std::pair<TokenId, float>> logit_bias = {};  // Added to the logits of these tokens.
  Status Validate() const;
};

inline constexpr uint32_t kMaxTopLogprobs = 20;

struct Request {
  std::vector<TokenId> prompt;  // At least one token.
  uint32_t max_tokens = 128;    // Most tokens to generate; 0 only fills the cache.
  SamplingOptions sampling = {};
  std::vector<std::string> stop = {};  // Generation ends before any of these texts; at most 16, none empty.
  bool ends_at_eos = true;             // Off: end-of-generation tokens are kept and generation goes on.
  bool wants_logprobs = false;         // Each TokenEvent says how likely its token was.
  uint32_t num_top_logprobs = 0;       // And names so many of the most likely ones, at most kMaxTopLogprobs.
  std::string tenant = {};             // Whose request it is; "" is a tenant too.
  // After its end its tokens stay in the cache for so long at least, where CacheOptions::pin_limit_bytes allows it.
  uint32_t keep_seconds = 0;
  std::string cache_salt = {};  // Requests share cached blocks only where their salts are equal.
  uint32_t choice_index = 0;    // Separates the random numbers of several answers to one prompt (SubmitChoices).
  Status Validate() const;
};

}  // namespace kvern
