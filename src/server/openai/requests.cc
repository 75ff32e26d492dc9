#include "server/openai/requests.h"

#include <utility>

#include "server/openai/answer_fields.h"

namespace kvern::server {
namespace {

std::string Indexed(const std::string& path, size_t i) { return path + "[" + std::to_string(i) + "]"; }

// A list of parts, each with a type; text is the only type that models of kvern read.
void CheckParts(const Json& parts, const std::string& path, FieldErrors& errors) {
  if (parts.empty()) errors.Fail(path, "is an empty array, expected text");
  for (size_t i = 0; i < parts.size(); ++i) {
    FieldReader part(parts[i], Indexed(path, i), errors);
    std::string type;
    part.String("type", type);
    if (part.ok() && type.empty()) part.Fail("type", "is missing, expected \"text\"");
    if (!type.empty() && type != "text") {
      part.Fail("type", "is " + ShowJson(type) + ", and this server supports \"text\" alone");
    }
    if (part.ok() && part.Find("text") == nullptr) part.Fail("text", "is missing");
    std::string text;
    part.String("text", text);
  }
}

void CheckMessage(const Json& message, const std::string& path, FieldErrors& errors) {
  FieldReader fields(message, path, errors);
  std::string role;
  fields.String("role", role);
  if (fields.ok() && role.empty()) fields.Fail("role", "is missing, expected \"system\", \"user\" or \"assistant\"");
  const Json* const content = fields.Find("content");
  const Json* const calls = fields.Find("tool_calls");
  if (calls != nullptr && !calls->is_array()) {
    fields.Fail("tool_calls", std::string("expected an array, found ") + KindName(*calls));
  }
  if (content == nullptr) {
    if (calls == nullptr) fields.Fail("content", "is missing, expected a string or an array of parts");
  } else if (content->is_array()) {
    CheckParts(*content, fields.PathOf("content"), errors);
  } else if (!content->is_string()) {
    fields.Fail("content", std::string("expected a string or an array of parts, found ") + KindName(*content));
  }
}

void ReadTools(FieldReader& fields, Json& tools) {
  if (const Json* const field = fields.Find("tools")) {
    if (!field->is_array()) {
      fields.Fail("tools", std::string("expected an array, found ") + KindName(*field));
    } else {
      tools = *field;
    }
  }
  for (size_t i = 0; i < tools.size(); ++i) FieldReader tool(tools[i], Indexed("tools", i), fields.errors());
  const Json* const choice = fields.Find("tool_choice");
  if (choice == nullptr) return;
  if (*choice == "none") {
    tools = Json::array();
  } else if (*choice != "auto") {
    fields.Fail("tool_choice", "is " + ShowJson(*choice) +
                                   ", and this server supports \"auto\" and \"none\": a call is "
                                   "text of the model and not parsed");
  }
}

}  // namespace

void ReadConversation(FieldReader& fields, ChatRequest& request) {
  const Json* const messages = fields.Find("messages");
  if (messages == nullptr) {
    fields.Fail("messages", "is missing, expected an array of messages");
  } else if (!messages->is_array()) {
    fields.Fail("messages", std::string("expected an array, found ") + KindName(*messages));
  } else if (messages->empty()) {
    fields.Fail("messages", "is empty, expected at least one message");
  } else {
    for (size_t i = 0; i < messages->size(); ++i) CheckMessage((*messages)[i], Indexed("messages", i), fields.errors());
    request.messages = *messages;
  }
  ReadTools(fields, request.tools);
  if (const Json* const arguments = fields.Find("chat_template_kwargs")) {
    const FieldReader object(*arguments, "chat_template_kwargs", fields.errors());
    request.template_arguments = *arguments;
  }
  fields.Bool("add_generation_prompt", request.adds_generation_prompt);
}

ChatRequest ReadChatRequest(const Json& body, FieldErrors& errors) {
  ChatRequest request;
  FieldReader fields(body, "", errors);
  ReadConversation(fields, request);
  ReadAnswerFields(fields, request.answer);
  fields.Bool("logprobs", request.answer.wants_logprobs);
  fields.UInt32("top_logprobs", request.answer.num_top_logprobs, 0, kMaxTopLogprobs);
  if (request.answer.num_top_logprobs > 0 && !request.answer.wants_logprobs) {
    fields.Fail("top_logprobs", "is for log probabilities: set logprobs to true");
  }
  return request;
}

std::vector<TokenId> ReadTokens(const Json& json, const std::string& path, FieldErrors& errors) {
  std::vector<TokenId> tokens;
  if (!json.is_array()) {
    errors.Fail(path, std::string("expected an array of token ids, found ") + KindName(json));
    return tokens;
  }
  tokens.reserve(json.size());
  for (size_t i = 0; i < json.size(); ++i) {
    const std::optional<uint64_t> id = AsUnsigned(json[i], (1u << 31) - 1);
    if (!id.has_value()) {
      errors.Fail(Indexed(path, i), std::string("is no token id but ") +
                                        (json[i].is_number() ? ShowJson(json[i]) : std::string(KindName(json[i]))));
      return {};
    }
    tokens.push_back(static_cast<TokenId>(*id));
  }
  return tokens;
}

CompletionRequest ReadCompletionRequest(const Json& body, FieldErrors& errors) {
  CompletionRequest request;
  FieldReader fields(body, "", errors);
  const auto add = [&](const Json& prompt, const std::string& path) {
    if (prompt.is_string()) {
      request.prompts.emplace_back(prompt.get_ref<const std::string&>());
    } else if (prompt.is_array()) {
      request.prompts.emplace_back(ReadTokens(prompt, path, errors));
    } else {
      errors.Fail(path, std::string("expected a string or an array of token ids, found ") + KindName(prompt));
    }
  };
  const Json* const prompt = fields.Find("prompt");
  if (prompt == nullptr) {
    fields.Fail("prompt", "is missing, expected a string, an array of token ids, or an array of these");
  } else if (!prompt->is_array() || (!prompt->empty() && prompt->front().is_number())) {
    add(*prompt, "prompt");
  } else if (prompt->empty() || prompt->size() > kMaxPrompts) {
    fields.Fail("prompt",
                "has " + std::to_string(prompt->size()) + " prompts, expected 1 to " + std::to_string(kMaxPrompts));
  } else {
    request.takes_array = true;
    for (size_t i = 0; i < prompt->size(); ++i) add((*prompt)[i], Indexed("prompt", i));
  }

  ReadAnswerFields(fields, request.answer);
  if (fields.Find("logprobs") != nullptr) {
    request.answer.wants_logprobs = true;
    fields.UInt32("logprobs", request.answer.num_top_logprobs, 0, kMaxTopLogprobs);
  }
  bool is_echoed = false;
  fields.Bool("echo", is_echoed);
  if (is_echoed) fields.Fail("echo", "is not supported: the answer holds new text alone");
  std::string suffix;
  fields.String("suffix", suffix);
  if (!suffix.empty()) fields.Fail("suffix", "is not supported: text is continued, not filled in");
  uint32_t best_of = request.answer.num_choices;
  fields.UInt32("best_of", best_of, 1, kMaxChoices);
  if (best_of != request.answer.num_choices) fields.Fail("best_of", "is not supported: leave it out or set it to n");
  return request;
}

}  // namespace kvern::server
