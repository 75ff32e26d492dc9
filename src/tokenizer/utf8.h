// One step through bytes that may be UTF-8. Nothing here allocates or assumes that the bytes are well-formed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace kvern {

enum class Utf8Kind : uint8_t {
  kCharacter,   // A well-formed character.
  kIncomplete,  // The text ends inside what may still become one.
  kIllFormed,   // Can never become one, whatever follows.
};

struct Utf8Step {
  size_t length;  // Bytes to step over, >= 1. Ill-formed: the maximal subpart of Unicode chapter 3.9.
  Utf8Kind kind;
};

// Looks at the front of `text`, which is not empty.
inline Utf8Step NextUtf8(std::string_view text) {
  const auto byte = [text](size_t i) { return static_cast<uint8_t>(text[i]); };
  const uint8_t lead = byte(0);
  if (lead < 0x80) return {1, Utf8Kind::kCharacter};
  if (lead < 0xC2 || lead > 0xF4) return {1, Utf8Kind::kIllFormed};
  const size_t length = lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
  // The second byte excludes overlong forms, surrogates and code points above U+10FFFF.
  uint8_t low = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
  uint8_t high = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
  for (size_t i = 1; i < length; ++i) {
    if (i == text.size()) return {i, Utf8Kind::kIncomplete};
    if (byte(i) < low || byte(i) > high) return {i, Utf8Kind::kIllFormed};
    low = 0x80;
    high = 0xBF;
  }
  return {length, Utf8Kind::kCharacter};
}

// Bytes at the front of `text` that are well-formed.
inline size_t WellFormedPrefix(std::string_view text) {
  size_t at = 0;
  while (at < text.size()) {
    if (static_cast<uint8_t>(text[at]) < 0x80) {
      ++at;
      continue;
    }
    const Utf8Step step = NextUtf8(text.substr(at));
    if (step.kind != Utf8Kind::kCharacter) break;
    at += step.length;
  }
  return at;
}

}  // namespace kvern
