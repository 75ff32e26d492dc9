// ChatSession: a conversation, the prompt it makes with the model's template, and how that prompt continues the last
// one. Knows neither terminal nor engine.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kvern/chat.h"
#include "kvern/tokenizer.h"

namespace kvern::cli {

struct ChatMessage {
  std::string role;  // "system" (the first one at most), "user" or "assistant".
  std::string content;
  bool operator==(const ChatMessage&) const = default;
};

// How the ids of a prompt relate to those that were computed before: the turn before it, its answer included.
struct PromptChange {
  uint64_t known_tokens = 0;   // Of the turn before.
  uint64_t common_tokens = 0;  // That the prompt begins with; less than known_tokens: there it goes on otherwise.
  std::string known_text;      // What stands there, token by token for a few tokens: before,
  std::string text;            // and in the prompt.
  bool is_continued() const { return common_tokens == known_tokens; }
};

class ChatSession {
 public:
  // `tokenizer` must outlive the session. Errors as of ChatTemplate::Parse.
  static Result<ChatSession> Open(const std::string& chat_template, const Tokenizer& tokenizer);

  const std::vector<ChatMessage>& messages() const { return messages_; }
  // Whether the user spoke last.
  bool awaits_answer() const { return !messages_.empty() && messages_.back().role == "user"; }
  // In place of the system message there was; "" takes it away. kUnsupported where the template would drop it.
  Status SetSystem(const std::string& text);
  void AddUser(std::string content) { messages_.push_back({"user", std::move(content)}); }

  // Token ids of the whole conversation, up to where the answer begins. Errors as of ChatTemplate::Render.
  Result<std::vector<TokenId>> Prompt() const;
  // The model's answer to `prompt`, which Prompt() has made: its text, and the ids as they were drawn.
  void AddAnswer(const std::vector<TokenId>& prompt, const std::vector<TokenId>& answer, std::string text);
  // Against the turn before; nullopt for the first prompt.
  std::optional<PromptChange> CompareToLast(const std::vector<TokenId>& prompt) const;

  // Removes what the user said last and the answer to it. Returns what was said; nullopt where there is nothing.
  std::optional<std::string> Undo();
  // Removes all but the system message.
  void Reset();

  // {"messages": [{"role": ..., "content": ...}, ...]}, as in a request to the OpenAI API.
  std::string ToJson() const;
  // The conversation in `json` in place of this one, which stays where it fails: kInvalidArgument names the message and
  // what was found, or what the template has to say.
  Status Load(std::string_view json);

 private:
  ChatSession(ChatTemplate chat, const Tokenizer& tokenizer);
  Result<std::string> Render(const std::vector<ChatMessage>& messages) const;

  ChatTemplate template_;
  const Tokenizer* tokenizer_;
  std::string bos_;
  std::string eos_;
  std::vector<ChatMessage> messages_;
  std::vector<TokenId> known_;  // The last prompt and its answer. Undo and Reset keep it: it is still in the cache.
};

}  // namespace kvern::cli
