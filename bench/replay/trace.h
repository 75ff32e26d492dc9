// Traces of requests: what a chat service was asked, as block ids. No text is in them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kvern/status.h"
#include "kvern/tokenizer.h"

namespace kvern::bench {

inline constexpr uint32_t kTraceBlockTokens = 512;  // An id stands for so many tokens and all those before them.

struct TraceRequest {
  uint64_t input_tokens = 0;
  std::vector<uint64_t> ids;  // One for each block begun.
};

struct Trace {
  std::string name;  // Of the file, without what it ends in.
  std::vector<TraceRequest> requests;
  uint64_t input_tokens = 0;  // Of all requests.
};

// JSON lines with `input_length` and `hash_ids`.
Result<Trace> ReadTrace(const std::string& path);

// Tokens made up from the ids: equal ids give equal tokens.
void TokensOf(const TraceRequest& request, std::vector<TokenId>& tokens);

// Input tokens that an LRU over whole blocks of the trace finds, which of the blocks used last together drops the
// last first: the curve to compare with.
uint64_t IdealHitTokens(const Trace& trace, uint64_t capacity_blocks);

}  // namespace kvern::bench
