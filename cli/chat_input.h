// What a user types into a chat: lines that become messages and commands.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace kvern::cli {

// Joins lines: one that ends in a backslash goes on in the next, and from a line that begins with """ everything
// belongs together up to a line that ends with """.
class MessageLines {
 public:
  // The whole text where `line` (without its line end) completes one.
  std::optional<std::string> Push(std::string_view line);
  // Whether more lines are needed.
  bool is_open() const { return state_ != State::kNone; }
  // What has come of a text that is not complete, at the end of the input; nullopt where there is none.
  std::optional<std::string> Finish();
  void Clear();

 private:
  enum class State { kNone, kContinued, kQuoted };

  std::optional<std::string> PushQuoted(std::string_view line);

  State state_ = State::kNone;
  std::string text_;
};

// "/save a file.json " is the command "save" with the argument "a file.json". nullopt for a text that is no command:
// it does not begin with a slash, or with two, or it has several lines and is no /system.
struct SlashCommand {
  std::string name;
  std::string argument;
  bool operator==(const SlashCommand&) const = default;
};
std::optional<SlashCommand> ParseSlashCommand(std::string_view text);

// The message that a text which is no command stands for: of two slashes at its beginning one is left.
std::string MessageOf(std::string text);

}  // namespace kvern::cli
