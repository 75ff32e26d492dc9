#define PCRE2_CODE_UNIT_WIDTH 8
#include "tokenizer/chat_template/characters.h"

#include <pcre2.h>

#include <algorithm>

#include "base/check.h"
#include "tokenizer/utf8.h"

namespace kvern::jinja {
namespace {

// A compiled expression of ours; lives as long as the process.
pcre2_code* Compile(const char* expression) {
  int error = 0;
  PCRE2_SIZE offset = 0;
  pcre2_code* code = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(expression), PCRE2_ZERO_TERMINATED,
                                   PCRE2_UTF | PCRE2_UCP, &error, &offset, nullptr);
  KVERN_CHECK(code != nullptr);
  return code;
}

char AsciiUpper(char c) { return c >= 'a' && c <= 'z' ? static_cast<char>(c - 32) : c; }
char AsciiLower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; }

// One non-ASCII character in the case that `replacement` ("\\U$0" or "\\L$0") names.
void AppendMapped(std::string_view bytes, const char* replacement, std::string& out) {
  static pcre2_code* const kAny = Compile("(?s).");
  PCRE2_UCHAR mapped[16];
  PCRE2_SIZE size = sizeof(mapped);
  const int count = pcre2_substitute(kAny, reinterpret_cast<PCRE2_SPTR>(bytes.data()), bytes.size(), 0,
                                     PCRE2_SUBSTITUTE_EXTENDED, nullptr, nullptr,
                                     reinterpret_cast<PCRE2_SPTR>(replacement), PCRE2_ZERO_TERMINATED, mapped, &size);
  if (count == 1) {
    out.append(reinterpret_cast<const char*>(mapped), size);
  } else {
    out += bytes;  // Ill-formed.
  }
}

std::string Mapped(std::string_view text, bool to_upper) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const std::string_view bytes = FirstCharacter(text).bytes;
    text.remove_prefix(bytes.size());
    if (bytes.size() == 1) {
      out += to_upper ? AsciiUpper(bytes[0]) : AsciiLower(bytes[0]);
    } else if (to_upper && bytes == "\xC3\x9F") {
      out += "SS";
    } else {
      AppendMapped(bytes, to_upper ? "\\U$0" : "\\L$0", out);
    }
  }
  return out;
}

}  // namespace

Character FirstCharacter(std::string_view text) {
  const Utf8Step step = NextUtf8(text);
  const auto byte = [text](size_t i) { return static_cast<unsigned char>(text[i]); };
  if (step.kind != Utf8Kind::kCharacter) return {text.substr(0, 1), byte(0)};
  if (step.length == 1) return {text.substr(0, 1), byte(0)};
  char32_t code = byte(0) & (0x7F >> step.length);
  for (size_t i = 1; i < step.length; ++i) code = code << 6 | (byte(i) & 0x3F);
  return {text.substr(0, step.length), code};
}

std::string Utf8(char32_t code) {
  const auto tail = [code](int shift) { return static_cast<char>(0x80 | (code >> shift & 0x3F)); };
  if (code < 0x80) return {static_cast<char>(code)};
  if (code < 0x800) return {static_cast<char>(0xC0 | code >> 6), tail(0)};
  if (code < 0x10000) return {static_cast<char>(0xE0 | code >> 12), tail(6), tail(0)};
  return {static_cast<char>(0xF0 | code >> 18), tail(12), tail(6), tail(0)};
}

uint64_t CountCharacters(std::string_view text) {
  uint64_t count = 0;
  for (; !text.empty(); ++count) text.remove_prefix(FirstCharacter(text).bytes.size());
  return count;
}

size_t OffsetOfCharacter(std::string_view text, uint64_t index) {
  size_t offset = 0;
  for (; index > 0 && offset < text.size(); --index) offset += FirstCharacter(text.substr(offset)).bytes.size();
  return offset;
}

bool IsSpace(char32_t code) {
  if (code < 0x80) return code == ' ' || (code >= 9 && code <= 13) || (code >= 0x1C && code <= 0x1F);
  return code == 0x85 || code == 0xA0 || code == 0x1680 || (code >= 0x2000 && code <= 0x200A) || code == 0x2028 ||
         code == 0x2029 || code == 0x202F || code == 0x205F || code == 0x3000;
}

namespace {

// The last character of `text`, which is not empty.
Character LastCharacter(std::string_view text) {
  for (size_t length = std::min<size_t>(4, text.size()); length > 1; --length) {
    const std::string_view tail = text.substr(text.size() - length);
    if (FirstCharacter(tail).bytes.size() == length) return FirstCharacter(tail);
  }
  return FirstCharacter(text.substr(text.size() - 1));
}

template <typename Test>
std::string_view StripStartWhile(std::string_view text, const Test& test) {
  while (!text.empty()) {
    const Character first = FirstCharacter(text);
    if (!test(first)) break;
    text.remove_prefix(first.bytes.size());
  }
  return text;
}

template <typename Test>
std::string_view StripEndWhile(std::string_view text, const Test& test) {
  while (!text.empty()) {
    const Character last = LastCharacter(text);
    if (!test(last)) break;
    text.remove_suffix(last.bytes.size());
  }
  return text;
}

bool IsSpaceCharacter(const Character& c) {
  return IsSpace(c.code) && (c.code < 0x80 || c.bytes.size() > 1);  // A lone byte 0x85 or 0xA0 is no character.
}

}  // namespace

std::string_view StripStart(std::string_view text) { return StripStartWhile(text, IsSpaceCharacter); }
std::string_view StripEnd(std::string_view text) { return StripEndWhile(text, IsSpaceCharacter); }
std::string_view StripStart(std::string_view text, std::string_view set) {
  return StripStartWhile(text, [set](const Character& c) { return set.find(c.bytes) != set.npos; });
}
std::string_view StripEnd(std::string_view text, std::string_view set) {
  return StripEndWhile(text, [set](const Character& c) { return set.find(c.bytes) != set.npos; });
}

std::string Upper(std::string_view text) { return Mapped(text, /*to_upper=*/true); }
std::string Lower(std::string_view text) { return Mapped(text, /*to_upper=*/false); }

std::string Capitalized(std::string_view text) {
  if (text.empty()) return "";
  const std::string_view first = FirstCharacter(text).bytes;
  const std::string_view rest = text.substr(first.size());
  if (first == "\xC3\x9F") return "Ss" + Lower(rest);
  return Upper(first) + Lower(rest);
}

std::string Titled(std::string_view text) {
  std::string out;
  size_t at = 0;
  while (at < text.size()) {
    size_t end = at;
    while (end < text.size()) {
      const Character c = FirstCharacter(text.substr(end));
      if (!IsOf(CharacterClass::kUpper, c.code) && !IsOf(CharacterClass::kLower, c.code)) break;
      end += c.bytes.size();
    }
    out += Capitalized(text.substr(at, end - at));
    if (end == text.size()) break;
    const std::string_view other = FirstCharacter(text.substr(end)).bytes;
    out += other;
    at = end + other.size();
  }
  return out;
}

bool IsOf(CharacterClass wanted, char32_t code) {
  if (wanted == CharacterClass::kPrintable && code < 0x80) return code >= 0x20 && code < 0x7F;
  static pcre2_code* const kClasses[] = {
      Compile("[^\\p{C}\\p{Z}]"), Compile("\\p{L}"),  Compile("\\p{Nd}|[\\x{B2}\\x{B3}\\x{B9}]"),
      Compile("[\\p{L}\\p{N}]"),  Compile("\\p{Lu}"), Compile("[\\p{Ll}\\x{AA}\\x{BA}]"),
  };
  const std::string text = Utf8(code);
  pcre2_match_data* match = pcre2_match_data_create(1, nullptr);
  const int count = pcre2_match(kClasses[static_cast<int>(wanted)], reinterpret_cast<PCRE2_SPTR>(text.data()),
                                text.size(), 0, 0, match, nullptr);
  pcre2_match_data_free(match);
  return count > 0;
}

}  // namespace kvern::jinja
