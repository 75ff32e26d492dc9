#include "cli/chat_input.h"

#include <utility>

namespace kvern::cli {
namespace {

constexpr std::string_view kQuotes = "\"\"\"";
constexpr std::string_view kSpaces = " \t\r\n";

std::string_view Trim(std::string_view text) {
  const size_t begin = text.find_first_not_of(kSpaces);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kSpaces) - begin + 1);
}

}  // namespace

std::optional<std::string> MessageLines::Push(std::string_view line) {
  if (state_ == State::kQuoted) return PushQuoted(line);
  if (state_ == State::kNone && line.starts_with(kQuotes)) {
    state_ = State::kQuoted;
    line.remove_prefix(kQuotes.size());
    if (line.empty()) return std::nullopt;  // The text begins on the next line.
    return PushQuoted(line);
  }
  if (line.ends_with('\\')) {
    line.remove_suffix(1);
    text_.append(line).push_back('\n');
    state_ = State::kContinued;
    return std::nullopt;
  }
  text_.append(line);
  return Finish().value_or("");
}

std::optional<std::string> MessageLines::PushQuoted(std::string_view line) {
  if (!line.ends_with(kQuotes)) {
    text_.append(line).push_back('\n');
    return std::nullopt;
  }
  line.remove_suffix(kQuotes.size());
  text_.append(line);
  // Quotes on a line of their own end the text before them.
  if (line.empty() && text_.ends_with('\n')) text_.pop_back();
  return Finish().value_or("");
}

std::optional<std::string> MessageLines::Finish() {
  std::string text = std::exchange(text_, {});
  Clear();
  if (text.empty()) return std::nullopt;
  return text;
}

void MessageLines::Clear() {
  state_ = State::kNone;
  text_.clear();
}

std::optional<SlashCommand> ParseSlashCommand(std::string_view text) {
  if (!text.starts_with('/') || text.starts_with("//")) return std::nullopt;
  text.remove_prefix(1);
  const size_t end = text.find_first_of(kSpaces);
  SlashCommand command;
  command.name = text.substr(0, end);
  if (end != std::string_view::npos) command.argument = Trim(text.substr(end));
  if (command.name != "system" && Trim(text).find('\n') != std::string_view::npos) return std::nullopt;
  return command;
}

std::string MessageOf(std::string text) {
  if (text.starts_with("//")) text.erase(0, 1);
  return text;
}

}  // namespace kvern::cli
