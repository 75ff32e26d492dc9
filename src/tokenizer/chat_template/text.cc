#include "tokenizer/chat_template/text.h"

#include <algorithm>
#include <charconv>

#include "tokenizer/chat_template/characters.h"
#include "tokenizer/chat_template/operations.h"

namespace kvern::jinja {
namespace {

constexpr int64_t kMaxPadding = 100'000;

uint64_t CountOf(std::string_view text, std::string_view part) {
  uint64_t count = 0;
  for (size_t at = 0; (at = text.find(part, at)) != text.npos; at += part.size()) ++count;
  return count;
}

bool IsLineEnd(char32_t code) {
  return (code >= 0x0A && code <= 0x0D) || (code >= 0x1C && code <= 0x1E) || code == 0x85 || code == 0x2028 ||
         code == 0x2029;
}

// The first run of what is no white space, from the chosen end; the rest without the white space between.
std::string_view TakeWord(std::string_view& rest, bool from_end) {
  size_t length = 0;
  while (length < rest.size()) {
    const std::string_view part = from_end ? rest.substr(0, rest.size() - length) : rest.substr(length);
    const std::string_view stripped = from_end ? StripEnd(part) : StripStart(part);
    if (stripped.size() != part.size()) break;
    ++length;
  }
  const std::string_view word = from_end ? rest.substr(rest.size() - length) : rest.substr(0, length);
  rest = from_end ? StripEnd(rest.substr(0, rest.size() - length)) : StripStart(rest.substr(length));
  return word;
}

std::vector<std::string_view> SplitAtSpace(std::string_view text, int64_t max_splits, bool from_end) {
  std::vector<std::string_view> parts;
  std::string_view rest = from_end ? StripEnd(text) : StripStart(text);
  while (!rest.empty() && (max_splits < 0 || static_cast<int64_t>(parts.size()) < max_splits)) {
    parts.push_back(TakeWord(rest, from_end));
  }
  if (!rest.empty()) parts.push_back(rest);
  return parts;
}

}  // namespace

Status AllowSearch(Runtime& runtime, std::string_view text, std::string_view part) {
  constexpr uint64_t kBytesOfStart = 8;  // What beginning to compare costs.
  runtime.budget().Touch(text.size() / 2 * std::min<uint64_t>(part.size() + kBytesOfStart, 1 << 30));
  return runtime.budget().status();
}

Result<std::string> Replaced(Runtime& runtime, std::string_view text, std::string_view old, std::string_view with,
                             int64_t count) {
  KVERN_RETURN_IF_ERROR(AllowSearch(runtime, text, old));
  const uint64_t limit = count < 0 ? UINT64_MAX : static_cast<uint64_t>(count);
  const uint64_t num_matches = old.empty() ? CountCharacters(text) + 1 : CountOf(text, old);
  const uint64_t num_replaced = std::min(num_matches, limit);
  if (with.size() > old.size() && !runtime.budget().Fits(text.size() + num_replaced * (with.size() - old.size()))) {
    return runtime.budget().status();
  }
  std::string out;
  size_t at = 0;
  for (uint64_t i = 0; i < num_replaced; ++i) {
    if (old.empty()) {  // Before each character and at the end.
      out += with;
      if (at == text.size()) break;
      const std::string_view character = FirstCharacter(text.substr(at)).bytes;
      out += character;
      at += character.size();
      continue;
    }
    const size_t match = text.find(old, at);
    (out += text.substr(at, match - at)) += with;
    at = match + old.size();
  }
  out += text.substr(std::min(at, text.size()));
  return out;
}

std::vector<std::string_view> Lines(std::string_view text, bool keeps_ends) {
  std::vector<std::string_view> lines;
  size_t begin = 0;
  for (size_t at = 0; at < text.size();) {
    const Character c = FirstCharacter(text.substr(at));
    size_t next = at + c.bytes.size();
    if (IsLineEnd(c.code) && (c.code < 0x80 || c.bytes.size() > 1)) {
      if (c.code == '\r' && next < text.size() && text[next] == '\n') ++next;
      lines.push_back(text.substr(begin, (keeps_ends ? next : at) - begin));
      begin = next;
    }
    at = next;
  }
  if (begin < text.size()) lines.push_back(text.substr(begin));
  return lines;
}

std::vector<std::string_view> Split(std::string_view text, std::string_view separator, int64_t max_splits,
                                    bool from_end) {
  std::vector<std::string_view> parts;
  if (separator.empty()) {
    parts = SplitAtSpace(text, max_splits, from_end);
  } else {
    while (max_splits < 0 || static_cast<int64_t>(parts.size()) < max_splits) {
      const size_t at = from_end ? text.rfind(separator) : text.find(separator);
      if (at == text.npos) break;
      parts.push_back(from_end ? text.substr(at + separator.size()) : text.substr(0, at));
      text = from_end ? text.substr(0, at) : text.substr(at + separator.size());
    }
    parts.push_back(text);
  }
  if (from_end) std::reverse(parts.begin(), parts.end());
  return parts;
}

Result<std::string> Padded(Runtime& runtime, std::string text, int64_t width, std::string_view fill, Side side) {
  const int64_t missing = std::max<int64_t>(width, 0) - static_cast<int64_t>(CountCharacters(text));
  if (missing <= 0) return text;
  if (missing > kMaxPadding || !runtime.budget().Fits(static_cast<uint64_t>(missing) * fill.size())) {
    return Status::InvalidArgument("a text is padded to more than " + std::to_string(kMaxPadding) + " characters");
  }
  // Source: str.center of CPython, which puts the odd one left where the width is odd.
  const int64_t left = side == Side::kRight ? 0 : side == Side::kLeft ? missing : missing / 2 + (missing & width & 1);
  std::string out;
  for (int64_t i = 0; i < left; ++i) out += fill;
  out += text;
  for (int64_t i = left; i < missing; ++i) out += fill;
  return out;
}

Result<Value> MemberByPath(Runtime& runtime, const Value& object, const Value& path, const Value* otherwise) {
  const auto member = [&](const Value& of, const Value& key) -> Result<Value> {
    KVERN_ASSIGN_OR_RETURN(Value found, GetItem(runtime, of, key));
    return found.is_undefined() && otherwise != nullptr ? *otherwise : found;
  };
  if (!path.is_string()) return member(object, path);
  runtime.budget().Touch(path.text().size());
  Value value = object;
  for (const std::string_view part : Split(path.text(), ".", -1, /*from_end=*/false)) {
    int64_t index = 0;
    const auto [end, error] = std::from_chars(part.data(), part.data() + part.size(), index);
    const bool is_index = !part.empty() && part[0] != '-' && error == std::errc() && end == part.data() + part.size();
    KVERN_ASSIGN_OR_RETURN(value, member(value, is_index ? Value::Int(index) : runtime.Text(std::string(part))));
    runtime.budget().Step();
    if (runtime.budget().is_spent()) return runtime.budget().status();
  }
  return value;
}

}  // namespace kvern::jinja
