#include "server/chat_renderer.h"

#include <ctime>
#include <limits>
#include <memory>
#include <optional>
#include <utility>

#include "kvern/chat.h"

namespace kvern::server {
namespace {

// ParseJson has bounded the depth.
ChatValue ToChatValue(const Json& json) {
  switch (json.type()) {
    case Json::value_t::boolean: return json.get<bool>();
    case Json::value_t::string: return json.get<std::string>();
    case Json::value_t::number_integer: return json.get<int64_t>();
    case Json::value_t::number_unsigned:
      if (json.get<uint64_t>() <= static_cast<uint64_t>(std::numeric_limits<int64_t>::max()))
        return json.get<int64_t>();
      return json.get<double>();
    case Json::value_t::number_float: return json.get<double>();
    case Json::value_t::array: {
      ChatValue::List list;
      for (const Json& element : json) list.push_back(ToChatValue(element));
      return list;
    }
    case Json::value_t::object: {
      ChatValue::Map map;
      for (const auto& [key, value] : json.items()) map.push_back({key, ToChatValue(value)});
      return map;
    }
    default: return {};
  }
}

// The text of all parts, which ReadConversation has checked.
std::string JoinParts(const Json& parts) {
  std::string text;
  for (const Json& part : parts) {
    if (!text.empty()) text += "\n";
    text += part.at("text").get_ref<const std::string&>();
  }
  return text;
}

// Templates print arguments of calls as values; clients send them as text.
void ParseArguments(Json& calls) {
  for (Json& call : calls) {
    if (!call.is_object() || !call.contains("function") || !call["function"].is_object()) continue;
    Json& function = call["function"];
    if (!function.contains("arguments") || !function["arguments"].is_string()) continue;
    Result<Json> value = ParseJson(function["arguments"].get_ref<const std::string&>());
    if (value.ok() && value->is_object()) function["arguments"] = std::move(value).value();
  }
}

ChatValue MessageValue(Json message, bool keeps_parts) {
  if (!keeps_parts && message.contains("content") && message["content"].is_array()) {
    message["content"] = JoinParts(message["content"]);
  }
  if (message.contains("tool_calls") && message["tool_calls"].is_array()) ParseArguments(message["tool_calls"]);
  return ToChatValue(message);
}

std::string TextOf(const Tokenizer& tokenizer, std::optional<TokenId> token) {
  return token.has_value() ? tokenizer.TokenBytes(*token, /*render_special=*/true) : "";
}

}  // namespace

Result<ChatRenderer> MakeChatRenderer(const std::string& source, const Tokenizer& tokenizer) {
  KVERN_ASSIGN_OR_RETURN(ChatTemplate parsed, ChatTemplate::Parse(source));
  // Shared: the function that holds it may be copied.
  const auto chat = std::make_shared<const ChatTemplate>(std::move(parsed));
  const std::string bos = TextOf(tokenizer, tokenizer.bos()), eos = TextOf(tokenizer, tokenizer.eos());
  ChatRenderer renderer;
  renderer.knows_tools = chat->abilities().tools;
  renderer.render = [chat, bos, eos](const Conversation& conversation) -> Result<std::string> {
    ChatInput input;
    for (const Json& message : conversation.messages) {
      input.messages.push_back(MessageValue(message, chat->abilities().content_parts));
    }
    if (!conversation.tools.empty()) input.tools = ToChatValue(conversation.tools);
    input.add_generation_prompt = conversation.adds_generation_prompt;
    input.bos_token = bos;
    input.eos_token = eos;
    for (const auto& [key, value] : conversation.arguments.items()) input.more.push_back({key, ToChatValue(value)});
    const std::time_t now = std::time(nullptr);
    localtime_r(&now, &input.now);
    return chat->Render(input);
  };
  return renderer;
}

}  // namespace kvern::server
