#include "cli/chat_session.h"

#include <algorithm>
#include <ctime>
#include <utility>

#include "cli/generation.h"
#include "server/json.h"

namespace kvern::cli {
namespace {

using server::Json;

constexpr size_t kShownTokens = 4;  // Of each side where a prompt departs from what was known.

std::string TextOf(const Tokenizer& tokenizer, std::optional<TokenId> token) {
  return token.has_value() ? tokenizer.TokenBytes(*token, /*render_special=*/true) : "";
}

std::string TextFrom(const Tokenizer& tokenizer, const std::vector<TokenId>& tokens, size_t begin) {
  std::string text;
  for (size_t i = begin; i < std::min(tokens.size(), begin + kShownTokens); ++i) {
    text += tokenizer.TokenBytes(tokens[i], /*render_special=*/true);
  }
  return text;
}

// "a number", for messages.
std::string TypeOf(const Json& json) {
  return json.is_null() ? "null" : "a value of type " + std::string(json.type_name());
}

Result<std::string> ReadString(const Json& message, const char* key, const std::string& where) {
  const auto found = message.find(key);
  if (found == message.end()) return Status::InvalidArgument(where + " has no \"" + key + "\"");
  if (!found->is_string()) {
    return Status::InvalidArgument(where + "." + key + " is " + TypeOf(*found) + ", expected a string");
  }
  return found->get<std::string>();
}

Result<std::vector<ChatMessage>> ReadMessages(std::string_view text) {
  KVERN_ASSIGN_OR_RETURN(const Json json, server::ParseJson(text));
  if (!json.is_object()) {
    return Status::InvalidArgument("found " + TypeOf(json) + ", expected an object with \"messages\"");
  }
  const auto list = json.find("messages");
  if (list == json.end()) return Status::InvalidArgument("the object has no \"messages\"");
  if (!list->is_array()) return Status::InvalidArgument("\"messages\" is " + TypeOf(*list) + ", expected an array");
  std::vector<ChatMessage> messages;
  for (const Json& element : *list) {
    const std::string where = "messages[" + std::to_string(messages.size()) + "]";
    if (!element.is_object()) {
      return Status::InvalidArgument(where + " is " + TypeOf(element) + ", expected an object");
    }
    ChatMessage message;
    KVERN_ASSIGN_OR_RETURN(message.role, ReadString(element, "role", where));
    KVERN_ASSIGN_OR_RETURN(message.content, ReadString(element, "content", where));
    if (message.role == "system" ? !messages.empty() : message.role != "user" && message.role != "assistant") {
      return Status::InvalidArgument(where + " has the role \"" + message.role +
                                     "\", expected user or assistant, or system for the first");
    }
    messages.push_back(std::move(message));
  }
  return messages;
}

}  // namespace

ChatSession::ChatSession(ChatTemplate chat, const Tokenizer& tokenizer)
    : template_(std::move(chat)),
      tokenizer_(&tokenizer),
      bos_(TextOf(tokenizer, tokenizer.bos())),
      eos_(TextOf(tokenizer, tokenizer.eos())) {}

Result<ChatSession> ChatSession::Open(const std::string& chat_template, const Tokenizer& tokenizer) {
  KVERN_ASSIGN_OR_RETURN(ChatTemplate chat, ChatTemplate::Parse(chat_template));
  return ChatSession(std::move(chat), tokenizer);
}

Status ChatSession::SetSystem(const std::string& text) {
  if (!text.empty() && !template_.abilities().system_role) {
    return Status::Unsupported("the model's template has no place for a system message; say it in your first message");
  }
  const bool has_system = !messages_.empty() && messages_.front().role == "system";
  if (has_system) messages_.erase(messages_.begin());
  if (!text.empty()) messages_.insert(messages_.begin(), {"system", text});
  return Status::Ok();
}

Result<std::string> ChatSession::Render(const std::vector<ChatMessage>& messages) const {
  ChatInput input;
  for (const ChatMessage& message : messages) {
    input.messages.push_back(ChatValue::Map{{"role", message.role}, {"content", message.content}});
  }
  input.bos_token = bos_;
  input.eos_token = eos_;
  const std::time_t now = std::time(nullptr);
  localtime_r(&now, &input.now);
  return template_.Render(input);
}

Result<std::vector<TokenId>> ChatSession::Prompt() const {
  KVERN_ASSIGN_OR_RETURN(const std::string text, Render(messages_));
  return tokenizer_->Encode(text, {.add_special = false, .parse_special = true});
}

void ChatSession::AddAnswer(const std::vector<TokenId>& prompt, const std::vector<TokenId>& answer, std::string text) {
  messages_.push_back({"assistant", std::move(text)});
  known_ = prompt;
  known_.insert(known_.end(), answer.begin(), answer.end());
}

std::optional<PromptChange> ChatSession::CompareToLast(const std::vector<TokenId>& prompt) const {
  if (known_.empty()) return std::nullopt;
  const auto common = static_cast<size_t>(
      std::mismatch(known_.begin(), known_.end(), prompt.begin(), prompt.end()).first - known_.begin());
  return PromptChange{.known_tokens = known_.size(),
                      .common_tokens = common,
                      .known_text = TextFrom(*tokenizer_, known_, common),
                      .text = TextFrom(*tokenizer_, prompt, common)};
}

std::optional<std::string> ChatSession::Undo() {
  const auto last = std::find_if(messages_.rbegin(), messages_.rend(),
                                 [](const ChatMessage& message) { return message.role == "user"; });
  if (last == messages_.rend()) return std::nullopt;
  std::string said = std::move(last->content);
  messages_.erase(last.base() - 1, messages_.end());
  return said;
}

void ChatSession::Reset() {
  std::erase_if(messages_, [](const ChatMessage& message) { return message.role != "system"; });
}

std::string ChatSession::ToJson() const {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const ChatMessage& message : messages_) list.push_back({{"role", message.role}, {"content", message.content}});
  return Dump({{"messages", std::move(list)}});
}

Status ChatSession::Load(std::string_view json) {
  KVERN_ASSIGN_OR_RETURN(std::vector<ChatMessage> messages, ReadMessages(json));
  if (!messages.empty()) {
    if (messages.front().role == "system" && !template_.abilities().system_role) {
      return Status::InvalidArgument("messages[0] has the role \"system\", which the model's template would drop");
    }
    KVERN_RETURN_IF_ERROR(Render(messages).status());
  }
  messages_ = std::move(messages);
  return Status::Ok();
}

}  // namespace kvern::cli
