// ChatTemplate: turns a conversation into the prompt that a model was trained on, by the template in its file.
//
//   auto chat = kvern::ChatTemplate::Parse(engine->model_info().chat_template);        // Result<ChatTemplate>
//   kvern::ChatInput input;
//   input.messages.push_back(ChatValue::Map{{"role", "user"}, {"content", "Hello"}});
//   auto prompt = chat->Render(input);                                                 // Result<std::string>
//
// Templates are written in Jinja and come from whoever made the model file: they are run by an interpreter with limits,
// which reaches nothing but its input. docs/chat_templates.md says what it knows.
#pragma once

#include <cstdint>
#include <ctime>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "kvern/status.h"

namespace kvern {

// A JSON value. Maps keep the order in which they were written, for templates print them; of equal keys the last
// counts.
class ChatValue {
 public:
  using List = std::vector<ChatValue>;
  using Map = std::vector<std::pair<std::string, ChatValue>>;

  ChatValue() = default;                                        // null
  ChatValue(bool value) : value_(value) {}                      // NOLINT: implicit by design, as below
  ChatValue(int value) : value_(int64_t{value}) {}              // NOLINT
  ChatValue(int64_t value) : value_(value) {}                   // NOLINT
  ChatValue(double value) : value_(value) {}                    // NOLINT
  ChatValue(const char* value) : value_(std::string(value)) {}  // NOLINT
  ChatValue(std::string value) : value_(std::move(value)) {}    // NOLINT
  ChatValue(List value) : value_(std::move(value)) {}           // NOLINT
  ChatValue(Map value) : value_(std::move(value)) {}            // NOLINT

  bool is_null() const { return std::holds_alternative<std::monostate>(value_); }
  // The value where it is of that type, else nullptr.
  const bool* AsBool() const { return std::get_if<bool>(&value_); }
  const int64_t* AsInt() const { return std::get_if<int64_t>(&value_); }
  const double* AsDouble() const { return std::get_if<double>(&value_); }
  const std::string* AsString() const { return std::get_if<std::string>(&value_); }
  const List* AsList() const { return std::get_if<List>(&value_); }
  const Map* AsMap() const { return std::get_if<Map>(&value_); }
  List* AsList() { return std::get_if<List>(&value_); }
  Map* AsMap() { return std::get_if<Map>(&value_); }

 private:
  std::variant<std::monostate, bool, int64_t, double, std::string, List, Map> value_;
};

// What a template is given. Strings are UTF-8.
struct ChatInput {
  ChatValue::List messages;           // Each a map: "role", "content", and what else the model's template knows.
  ChatValue tools;                    // A list as in the OpenAI API, or null.
  ChatValue documents;                // A list, or null.
  bool add_generation_prompt = true;  // End with the words that begin the model's answer.
  std::string bos_token;              // Text of these tokens, or "".
  std::string eos_token;
  ChatValue::Map more;  // Further variables ("enable_thinking"); they replace those above.
  std::tm now{};        // Local time, for templates that print the date.
};

// What a template and one rendering of it may use. Reaching a limit is an error (kResourceExhausted), never a crash.
struct ChatLimits {
  uint64_t template_bytes = 512 << 10;
  uint64_t steps = 20'000'000;  // Evaluated nodes, and one for every 64 bytes read or written: about a second.
  uint64_t output_bytes = 64 << 20;
  uint64_t held_bytes = 256 << 20;  // Of all values at one time, the input among them.
};

// What a conversation may hold for this template, found by rendering small ones.
struct ChatAbilities {
  bool system_role = false;    // The text of a message with role "system" comes out.
  bool tools = false;          // A tool given is named in the prompt.
  bool content_parts = false;  // "content" may be a list of {"type": "text", "text": ...}; else only a string.
};

// A parsed template. Immutable: any thread may render it, several at once.
class ChatTemplate {
 public:
  // kCorruption for text that is no template, kUnsupported for what kvern does not have, kResourceExhausted for one
  // that is too long or nests too deeply. Messages begin with the place: "line 3, column 14: ...".
  static Result<ChatTemplate> Parse(std::string_view source, const ChatLimits& limits = {});
  ChatTemplate(ChatTemplate&&) noexcept;
  ChatTemplate& operator=(ChatTemplate&&) noexcept;
  ~ChatTemplate();

  // The prompt; it holds BOS where the template writes it, so encode it with parse_special and without add_special.
  // kInvalidArgument where the template refuses the conversation (its own sentence in the message) or cannot render it,
  // kResourceExhausted where a limit is reached; both name the place in the template.
  Result<std::string> Render(const ChatInput& input) const;

  const ChatAbilities& abilities() const;

 private:
  struct Parsed;
  explicit ChatTemplate(std::unique_ptr<const Parsed> parsed);
  std::unique_ptr<const Parsed> parsed_;
};

}  // namespace kvern
