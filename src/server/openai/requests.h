// What clients ask for, read from the bodies of /v1/chat/completions and /v1/completions. docs/api.md lists every
// field. Nothing here knows an engine or a model: limits that depend on one are checked where it is at hand.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "kvern/request.h"
#include "server/api_error.h"
#include "server/field_reader.h"
#include "server/json.h"

namespace kvern::server {

// The fields that both routes share.
struct AnswerOptions {
  std::string model;  // "": whatever there is.
  SamplingOptions sampling;
  bool has_seed = false;
  std::vector<std::string> stop;
  std::optional<uint32_t> max_tokens;
  uint32_t num_choices = 1;
  bool is_streamed = false;
  bool includes_usage = false;  // In a stream: one more chunk at its end.
  bool wants_logprobs = false;
  uint32_t num_top_logprobs = 0;
  bool ends_at_eos = true;
  bool reuses_generated = false;  // A text that goes on from an answer begins with the tokens that were generated.
  uint32_t keep_seconds = 0;      // As in Request.
};

struct ChatRequest {
  AnswerOptions answer;
  Json messages;                             // An array of objects, each with a role and content that is text.
  Json tools = Json::array();                // As sent; empty: none.
  Json template_arguments = Json::object();  // chat_template_kwargs
  bool adds_generation_prompt = true;
};

using PromptInput = std::variant<std::string, std::vector<TokenId>>;

struct CompletionRequest {
  AnswerOptions answer;
  std::vector<PromptInput> prompts;  // At least one.
  bool takes_array = false;          // `prompt` was a list of prompts: names of fields count them.
};

inline constexpr uint32_t kMaxChoices = 128;
inline constexpr size_t kMaxPrompts = 128;
inline constexpr size_t kMaxStops = 16;
inline constexpr size_t kMaxStopBytes = 512;

// Each fills what it can and leaves the first error in `errors`.
ChatRequest ReadChatRequest(const Json& body, FieldErrors& errors);
CompletionRequest ReadCompletionRequest(const Json& body, FieldErrors& errors);
// The part of a chat request that makes the prompt: messages, tools, chat_template_kwargs, add_generation_prompt.
void ReadConversation(FieldReader& fields, ChatRequest& request);
// An array of token ids at `path`.
std::vector<TokenId> ReadTokens(const Json& json, const std::string& path, FieldErrors& errors);

}  // namespace kvern::server
