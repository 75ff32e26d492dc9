// RequestRecord: what the server remembers of one request for its log and its metrics.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "server/json.h"

namespace kvern::server {

// Why the tokens of prompts were computed, or were not; they add up to the prompts'. As in RequestStats.
struct PromptCauses {
  uint64_t found = 0;
  uint64_t first_time = 0;
  uint64_t evicted = 0;
  uint64_t diverged = 0;
  uint64_t last_token = 0;
};

// Written by the thread that handles the request, then by its reply on the I/O thread; read when the reply has ended.
struct RequestRecord {
  std::chrono::steady_clock::time_point begin = std::chrono::steady_clock::now();
  std::string id;
  std::string tenant;
  std::string remote;
  std::string method;
  std::string path;
  std::string route;  // "/v1/models/{id}", or "" where there is none.
  std::string error;  // The message, where the reply is one.

  // Of requests that generate.
  bool generates = false;
  bool is_streamed = false;
  uint64_t prompt_tokens = 0;
  uint64_t cached_tokens = 0;
  uint64_t generated_tokens = 0;
  PromptCauses causes;
  Json divergence;        // As DivergenceJson, of the first prompt.
  uint64_t queue_us = 0;  // As in RequestStats; the longest of several answers.
  uint64_t prefill_us = 0;
  uint64_t decode_us = 0;
  std::optional<uint64_t> first_token_us;  // From `begin` to the first token.
  std::string finish_reason;               // Of the first answer.
  std::string prompt;                      // Only where prompts are to be logged.
};

}  // namespace kvern::server
