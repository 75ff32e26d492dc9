// Running one request from a command: streaming, Ctrl-C, and its numbers for people and for programs.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "kvern/engine.h"

namespace kvern::cli {

struct Generation {
  std::string text;
  std::vector<TokenId> tokens;
  FinishReason finish_reason = FinishReason::kNone;
  RequestStats stats;
};

// Submits `request` and reads its stream to the end. Ctrl-C cancels the request: what was made so far is the result.
// `on_event` sees each piece as it comes; false cancels too. An error of the stream is returned as it is.
Result<Generation> Generate(Engine& engine, Request request,
                            const std::function<bool(const TokenEvent&)>& on_event = {});

// Tokens per second; 0 where nothing was timed. The first generated token counts as the end of the prefill.
double PrefillRate(const RequestStats& stats);
double DecodeRate(const RequestStats& stats);

// A warning with advice where keys or values did not fit their codec, else "".
std::string LostValuesWarning(const Engine& engine);

// "5 tokens in, 32 out; prefill 1234 tok/s, decode 210 tok/s; KV 1.4 MiB; 36 tokens computed, 155 reused"
std::string Summary(const RequestStats& stats);
nlohmann::ordered_json ToJson(const RequestStats& stats);

// The text of `json` with ill-formed UTF-8 replaced by U+FFFD; never throws for the content.
std::string Dump(const nlohmann::ordered_json& json);

}  // namespace kvern::cli
