// The public ChatTemplate, and what a template can do, found by trying.
#include <algorithm>

#include "kvern/chat.h"
#include "tokenizer/chat_template/interpreter.h"
#include "tokenizer/chat_template/parser.h"

namespace kvern {

struct ChatTemplate::Parsed {
  jinja::Template tree;
  ChatLimits limits;
  ChatAbilities abilities;
};

namespace {

// Words that no template writes on its own.
constexpr const char* kMark = "kvern-mark-5b1f";
constexpr const char* kToolName = "kvern_tool_5b1f";
// Limits of a trial: a template that takes more for a greeting has no abilities worth waiting for.
constexpr uint64_t kTrialSteps = 1'000'000;
constexpr uint64_t kTrialBytes = 16 << 20;

ChatValue Message(const char* role, ChatValue content) {
  return ChatValue::Map{{"role", role}, {"content", std::move(content)}};
}

ChatInput Probe(ChatValue::List messages) {
  ChatInput input;
  input.messages = std::move(messages);
  input.bos_token = "<s>";
  input.eos_token = "</s>";
  input.now.tm_mday = 1;
  input.now.tm_year = 100;
  return input;
}

ChatValue ProbeTools() {
  ChatValue::Map text{{"type", "string"}, {"description", "A text."}};
  ChatValue::Map parameters{{"type", "object"},
                            {"properties", ChatValue::Map{{"text", std::move(text)}}},
                            {"required", ChatValue::List{"text"}}};
  ChatValue::Map function{{"name", kToolName}, {"description", "A tool."}, {"parameters", std::move(parameters)}};
  return ChatValue::List{ChatValue::Map{{"type", "function"}, {"function", std::move(function)}}};
}

bool Writes(const Result<std::string>& text, std::string_view what) {
  return text.ok() && text->find(what) != std::string::npos;
}

// A question, the call of a tool, its result.
ChatInput ProbeToolCall(ChatValue content, ChatValue arguments) {
  ChatValue::Map function{{"name", kToolName}, {"arguments", std::move(arguments)}};
  ChatValue call = ChatValue::Map{{"id", "abcdefghi"}, {"type", "function"}, {"function", std::move(function)}};
  ChatValue::Map assistant{
      {"role", "assistant"}, {"content", std::move(content)}, {"tool_calls", ChatValue::List{std::move(call)}}};
  ChatValue::Map result{{"role", "tool"}, {"tool_call_id", "abcdefghi"}, {"content", "Done"}};
  ChatInput input = Probe({Message("user", "Hello"), std::move(assistant), std::move(result)});
  input.tools = ProbeTools();
  return input;
}

// Templates differ in whether the content beside a call is empty or null.
bool WritesToolCall(const ChatTemplate& chat, const ChatValue& arguments) {
  return Writes(chat.Render(ProbeToolCall("", arguments)), kMark) ||
         Writes(chat.Render(ProbeToolCall(ChatValue(), arguments)), kMark);
}

ChatAbilities FindAbilities(const ChatTemplate& chat) {
  ChatAbilities abilities;
  abilities.system_role = Writes(chat.Render(Probe({Message("system", kMark), Message("user", "Hello")})), kMark);

  ChatInput with_tools = Probe({Message("user", "Hello")});
  with_tools.tools = ProbeTools();
  abilities.tools = Writes(chat.Render(with_tools), kToolName);

  // Where the list itself is printed its other words show too.
  ChatValue parts = ChatValue::List{ChatValue::Map{{"type", "text"}, {"text", kMark}}};
  const auto with_parts = chat.Render(Probe({Message("user", std::move(parts))}));
  abilities.content_parts =
      Writes(with_parts, kMark) && !Writes(with_parts, "'type'") && !Writes(with_parts, "\"type\"");

  abilities.tool_calls = WritesToolCall(chat, ChatValue::Map{{"text", kMark}});
  if (!abilities.tool_calls) {
    abilities.text_arguments = WritesToolCall(chat, std::string("{\"text\": \"") + kMark + "\"}");
    abilities.tool_calls = abilities.text_arguments;
  }
  return abilities;
}

}  // namespace

ChatTemplate::ChatTemplate(std::unique_ptr<const Parsed> parsed) : parsed_(std::move(parsed)) {}
ChatTemplate::ChatTemplate(ChatTemplate&&) noexcept = default;
ChatTemplate& ChatTemplate::operator=(ChatTemplate&&) noexcept = default;
ChatTemplate::~ChatTemplate() = default;

Result<ChatTemplate> ChatTemplate::Parse(std::string_view source, const ChatLimits& limits) {
  if (source.size() > limits.template_bytes) {
    return Status::ResourceExhausted("the chat template has " + std::to_string(source.size()) + " bytes, limit " +
                                     std::to_string(limits.template_bytes));
  }
  auto parsed = std::make_unique<Parsed>();
  KVERN_ASSIGN_OR_RETURN(parsed->tree, jinja::ParseTemplate(source));
  parsed->limits = limits;
  parsed->limits.steps = std::min(limits.steps, kTrialSteps);
  parsed->limits.held_bytes = std::min(limits.held_bytes, kTrialBytes);
  Parsed* const kept = parsed.get();
  ChatTemplate chat(std::move(parsed));
  kept->abilities = FindAbilities(chat);
  kept->limits = limits;
  return chat;
}

Result<std::string> ChatTemplate::Render(const ChatInput& input) const {
  const ChatValue add_generation_prompt(input.add_generation_prompt);
  const ChatValue bos_token(input.bos_token);
  const ChatValue eos_token(input.eos_token);
  std::vector<jinja::Variable> variables = {
      {"messages", &input.messages}, {"tools", &input.tools},   {"documents", &input.documents},
      {"bos_token", &bos_token},     {"eos_token", &eos_token}, {"add_generation_prompt", &add_generation_prompt},
  };
  for (const auto& [name, value] : input.more) variables.push_back({name, &value});
  return jinja::RenderTemplate(parsed_->tree, variables, input.now, parsed_->limits);
}

const ChatAbilities& ChatTemplate::abilities() const { return parsed_->abilities; }

}  // namespace kvern
