#include "tokenizer/chat_template/string_literal.h"

#include <charconv>

#include "tokenizer/chat_template/characters.h"

namespace kvern::jinja {
namespace {

constexpr std::string_view kLetters = "\n\\'\"abfnrtv";
constexpr std::string_view kMeanings = "\n\\'\"\a\b\f\n\r\t\v";

// \xHH, \uHHHH, \UHHHHHHHH.
Result<std::string> HexEscape(std::string_view digits, size_t num_digits) {
  uint32_t code = 0;
  const auto [end, error] =
      std::from_chars(digits.data(), digits.data() + std::min(num_digits, digits.size()), code, 16);
  if (error != std::errc() || end != digits.data() + num_digits) {
    return Status::Corruption("an escape in this string is cut short, expected " + std::to_string(num_digits) +
                              " hexadecimal digits");
  }
  if (code > 0x10FFFF || (code >= 0xD800 && code < 0xE000)) {
    return Status::Corruption("an escape in this string names no Unicode character");
  }
  return Utf8(code);
}

// Up to three octal digits at the front of `text`.
size_t OctalDigits(std::string_view text) {
  size_t count = 0;
  while (count < 3 && count < text.size() && text[count] >= '0' && text[count] <= '7') ++count;
  return count;
}

}  // namespace

Result<std::string> Unescaped(std::string_view literal) {
  std::string text;
  while (!literal.empty()) {
    if (literal[0] != '\\' || literal.size() == 1) {
      text += literal[0];
      literal.remove_prefix(1);
      continue;
    }
    const char letter = literal[1];
    literal.remove_prefix(2);
    if (letter == 'x' || letter == 'u' || letter == 'U') {
      const size_t num_digits = letter == 'x' ? 2 : letter == 'u' ? 4 : 8;
      KVERN_ASSIGN_OR_RETURN(const std::string character, HexEscape(literal, num_digits));
      text += character;
      literal.remove_prefix(num_digits);
    } else if (letter >= '0' && letter <= '7') {
      const std::string octal = letter + std::string(literal.substr(0, OctalDigits(literal)));
      text += Utf8(static_cast<char32_t>(std::stoi(octal.substr(0, 3), nullptr, 8)));
      literal.remove_prefix(std::min<size_t>(2, octal.size() - 1));
    } else if (letter == 'N') {
      return Status::Corruption("\\N{...} in a string is not supported, write the character itself");
    } else if (letter == '\n') {
      // A newline after a backslash is no part of the text.
    } else if (const size_t at = kLetters.find(letter); at != kLetters.npos) {
      text += kMeanings[at];
    } else {
      text += {'\\', letter};
    }
  }
  return text;
}

}  // namespace kvern::jinja
