// Characters of UTF-8 text as Python's str has them. Ill-formed bytes count as characters of their own, so every
// function takes any bytes.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace kvern::jinja {

// The first character of `text`, which is not empty: its bytes and code point (the byte where it is ill-formed).
struct Character {
  std::string_view bytes;
  char32_t code;
};
Character FirstCharacter(std::string_view text);
std::string Utf8(char32_t code);

uint64_t CountCharacters(std::string_view text);
// Byte at which character `index` begins, or the size of the text where it has no more than `index`.
size_t OffsetOfCharacter(std::string_view text, uint64_t index);

bool IsSpace(char32_t code);
// `text` without the white space, or the characters that stand in `set`, at its start and end.
std::string_view StripStart(std::string_view text);
std::string_view StripEnd(std::string_view text);
std::string_view StripStart(std::string_view text, std::string_view set);
std::string_view StripEnd(std::string_view text, std::string_view set);

// Upper and lower case by Unicode, one character to one (and ß to SS): what else Python maps to several stays.
std::string Upper(std::string_view text);
std::string Lower(std::string_view text);
// First character upper, the rest lower.
std::string Capitalized(std::string_view text);
// Each run of letters capitalized.
std::string Titled(std::string_view text);

enum class CharacterClass { kPrintable, kLetter, kDecimal, kDigit, kNumeric, kAlphanumeric, kUpper, kLower };
bool IsOf(CharacterClass wanted, char32_t code);

}  // namespace kvern::jinja
