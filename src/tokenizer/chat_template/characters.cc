#define PCRE2_CODE_UNIT_WIDTH 8
#include "tokenizer/chat_template/characters.h"

#include <pcre2.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "base/check.h"
#include "tokenizer/utf8.h"

namespace kvern::jinja {
namespace {

// A compiled expression of ours.
using Code = std::unique_ptr<pcre2_code, decltype(&pcre2_code_free)>;
Code Compile(const char* expression) {
  int error = 0;
  PCRE2_SIZE offset = 0;
  Code code(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(expression), PCRE2_ZERO_TERMINATED, PCRE2_UTF | PCRE2_UCP,
                          &error, &offset, nullptr),
            &pcre2_code_free);
  KVERN_CHECK(code != nullptr);
  return code;
}

// Every character that Unicode may give a class to: the planes between have none, nor has private use.
std::string AllCharacters() {
  std::string text;
  for (char32_t code = 0x80; code < 0xE1000; ++code) {
    if (code == 0xD800) code = 0xE000;  // Past the surrogates.
    if (code == 0x40000) code = 0xE0000;
    text += Utf8(code);
  }
  return text;
}

char AsciiUpper(char c) { return c >= 'a' && c <= 'z' ? static_cast<char>(c - 32) : c; }
char AsciiLower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; }

// Of each character beyond ASCII that `replacement` ("\\U$0" or "\\L$0") changes: both, in order.
using CaseMap = std::map<char32_t, char32_t>;
CaseMap FindCaseMap(const char* replacement) {
  const std::string text = AllCharacters();
  std::string mapped(text.size() * 2, '\0');
  PCRE2_SIZE size = mapped.size();
  const int count = pcre2_substitute(Compile("(?s).+").get(), reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), 0,
                                     PCRE2_SUBSTITUTE_EXTENDED | PCRE2_NO_UTF_CHECK, nullptr, nullptr,
                                     reinterpret_cast<PCRE2_SPTR>(replacement), PCRE2_ZERO_TERMINATED,
                                     reinterpret_cast<PCRE2_UCHAR*>(mapped.data()), &size);
  KVERN_CHECK(count == 1);
  CaseMap map;
  std::string_view to = mapped;
  for (std::string_view from = text; !from.empty();) {
    const Character a = FirstCharacter(from);
    const Character b = FirstCharacter(to);
    if (a.code != b.code) map.emplace(a.code, b.code);
    from.remove_prefix(a.bytes.size());
    to.remove_prefix(b.bytes.size());
  }
  return map;
}

CaseMap FindLower() {
  CaseMap map = FindCaseMap("\\L$0");
  // These are no letters to the library: Roman numerals, and letters in circles.
  for (char32_t code = 0x2160; code < 0x2170; ++code) map.emplace(code, code + 16);
  for (char32_t code = 0x24B6; code < 0x24D0; ++code) map.emplace(code, code + 26);
  return map;
}

// The library takes the next of all that are equal but for case, which need not be upper (σ for ς): upper is what has
// the character as its lower case, else what has its neighbour so.
CaseMap FindUpper() {
  CaseMap map;
  for (const auto& [upper, lower] : FindLower()) map.emplace(lower, upper);
  const CaseMap from_lower = map;
  for (const auto& [code, next] : FindCaseMap("\\U$0")) {
    const auto found = from_lower.find(next);
    const char32_t upper = next < 0x80                 ? static_cast<char32_t>(AsciiUpper(static_cast<char>(next)))
                           : found != from_lower.end() ? found->second
                                                       : next;
    map.emplace(code, upper);
  }
  map.emplace(0x131, 'I');  // The i without a dot.
  return map;
}

template <bool kToUpper>
std::string Mapped(std::string_view text) {
  constexpr auto kAsciiMapped = kToUpper ? AsciiUpper : AsciiLower;
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const Character c = FirstCharacter(text);
    text.remove_prefix(c.bytes.size());
    if (c.bytes.size() == 1) {  // ASCII, or ill-formed.
      out += kAsciiMapped(c.bytes[0]);
      continue;
    }
    if (kToUpper && c.code == U'\u00DF') {
      out += "SS";
      continue;
    }
    static const CaseMap kMap = kToUpper ? FindUpper() : FindLower();
    const auto found = kMap.find(c.code);
    out += found != kMap.end() ? Utf8(found->second) : std::string(c.bytes);
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
  for (size_t at = 0; at < text.size(); ++count) {
    at += static_cast<unsigned char>(text[at]) < 0x80 ? 1 : FirstCharacter(text.substr(at)).bytes.size();
  }
  return count;
}

size_t OffsetOfCharacter(std::string_view text, uint64_t index) {
  size_t offset = 0;
  for (; index > 0 && offset < text.size(); --index) {
    offset += static_cast<unsigned char>(text[offset]) < 0x80 ? 1 : FirstCharacter(text.substr(offset)).bytes.size();
  }
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

std::string Upper(std::string_view text) { return Mapped<true>(text); }
std::string Lower(std::string_view text) { return Mapped<false>(text); }

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

namespace {

bool IsAsciiOf(CharacterClass wanted, char c) {
  const bool is_upper = c >= 'A' && c <= 'Z';
  const bool is_lower = c >= 'a' && c <= 'z';
  const bool is_digit = c >= '0' && c <= '9';
  switch (wanted) {
    case CharacterClass::kPrintable: return c >= 0x20 && c < 0x7F;
    case CharacterClass::kLetter: return is_upper || is_lower;
    case CharacterClass::kDecimal:
    case CharacterClass::kDigit:
    case CharacterClass::kNumeric: return is_digit;
    case CharacterClass::kAlphanumeric: return is_upper || is_lower || is_digit;
    case CharacterClass::kUpper: return is_upper;
    case CharacterClass::kLower: return is_lower;
  }
  return false;
}

struct Range {
  char32_t first, last;
};

// The runs of characters beyond ASCII that `expression` (a class, repeated) matches, in order.
std::vector<Range> FindRanges(const char* expression) {
  const std::string text = AllCharacters();
  const Code code = Compile(expression);
  const std::unique_ptr<pcre2_match_data, decltype(&pcre2_match_data_free)> match(pcre2_match_data_create(1, nullptr),
                                                                                  &pcre2_match_data_free);
  std::vector<Range> ranges;
  for (size_t at = 0; pcre2_match(code.get(), reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), at,
                                  PCRE2_NO_UTF_CHECK, match.get(), nullptr) > 0;) {
    const PCRE2_SIZE* const run = pcre2_get_ovector_pointer(match.get());
    at = run[1];
    for (std::string_view rest = std::string_view(text).substr(run[0], run[1] - run[0]); !rest.empty();) {
      const Character c = FirstCharacter(rest);
      rest.remove_prefix(c.bytes.size());
      if (!ranges.empty() && ranges.back().last + 1 == c.code) {
        ranges.back().last = c.code;
      } else {
        ranges.push_back({c.code, c.code});
      }
    }
  }
  return ranges;
}

// Found on first use, which takes milliseconds: asking the library about each character would take a hundred times as
// long as looking it up.
const std::vector<Range>& RangesOf(CharacterClass wanted) {
  constexpr std::array<const char*, 8> kExpressions = {
      "[^\\p{C}\\p{Z}]+", "\\p{L}+",         "\\p{Nd}+", "[\\p{Nd}\\x{B2}\\x{B3}\\x{B9}]+",
      "\\p{N}+",          "[\\p{L}\\p{N}]+", "\\p{Lu}+", "[\\p{Ll}\\x{AA}\\x{BA}]+",
  };
  static std::array<std::once_flag, kExpressions.size()> is_found;
  static std::array<std::vector<Range>, kExpressions.size()> ranges;
  const auto i = static_cast<size_t>(wanted);
  std::call_once(is_found[i], [i, &kExpressions] { ranges[i] = FindRanges(kExpressions[i]); });
  return ranges[i];
}

}  // namespace

bool IsOf(CharacterClass wanted, char32_t code) {
  if (code < 0x80) return IsAsciiOf(wanted, static_cast<char>(code));
  const std::vector<Range>& ranges = RangesOf(wanted);
  const auto after = std::upper_bound(ranges.begin(), ranges.end(), code,
                                      [](char32_t c, const Range& range) { return c < range.first; });
  return after != ranges.begin() && code <= std::prev(after)->last;
}

}  // namespace kvern::jinja
