// ServedModel: the one model of a server, as its routes see it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <string>

#include "kvern/engine.h"
#include "server/json.h"

namespace kvern::server {

// What a chat template is given, as the client sent it.
struct Conversation {
  const Json& messages;   // An array of objects with role and content.
  const Json& tools;      // An array; empty: none.
  const Json& arguments;  // An object: further variables of the template.
  bool adds_generation_prompt;
};
// The text of the prompt. kInvalidArgument where the template refuses the messages. Any thread, several at once.
using RenderChat = std::function<Result<std::string>(const Conversation& chat)>;

struct ServedModel {
  Engine& engine;  // Must outlive the server.
  std::string id;  // "SmolLM2-135M-Instruct.Q4_1"
  int64_t created_s = 0;
  uint64_t max_token_bytes = 1;        // No token stands for more bytes of text (LongestToken).
  uint32_t default_max_tokens = 1024;  // Of a chat answer, where the client sets no limit.
  RenderChat render_chat = {};         // Empty: the model has no chat template.
  bool template_knows_tools = false;
};

// Bytes of the longest token of a vocabulary. A walk over all of it.
inline uint64_t LongestToken(const Tokenizer& tokenizer) {
  size_t longest = 1;
  for (size_t i = 0; i < tokenizer.vocab_size(); ++i) {
    longest = std::max(longest, tokenizer.TokenBytes(static_cast<TokenId>(i), /*render_special=*/true).size());
  }
  return longest;
}

}  // namespace kvern::server
