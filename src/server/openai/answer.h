// An answer on its way from the engine to the client: all choices of one request, whole or as an event stream.
#pragma once

#include <string>
#include <vector>

#include "server/openai/answer_format.h"
#include "server/openai/requests.h"
#include "server/route_context.h"

namespace kvern::server {

// Token ids of a prompt, and the name of the field that they come from.
struct EncodedPrompt {
  std::vector<TokenId> tokens;
  std::string path;             // "prompt[1]"
  std::string text = {};        // That the tokens were cut from; "" where they came as ids.
  uint64_t num_reused_ids = 0;  // Leading tokens that are those of an earlier answer and its prompt.
};

// `text` as token ids, control tokens in it included, as `answer` says of answers that it goes on from. An error names
// `path`.
std::variant<EncodedPrompt, ApiError> EncodePrompt(const RouteContext& context, const AnswerOptions& answer,
                                                   std::string text, std::string path, bool adds_special);

// Submits options.num_choices answers to each prompt, at most so many tokens each unless the client says so, and
// returns the reply that follows them, or an error.
HttpReply StartAnswer(RouteContext& context, AnswerKind kind, const AnswerOptions& options,
                      std::vector<EncodedPrompt> prompts, uint32_t default_max_tokens);

// The error of a text that has more tokens than the context, however it is cut: not worth the time to look at it.
std::optional<ApiError> CheckTextBytes(const ServedModel& model, uint64_t num_bytes, const std::string& path);

// The error where `model` is not the one that the client names.
std::optional<ApiError> CheckModelName(const ServedModel& model, const std::string& name);

}  // namespace kvern::server
