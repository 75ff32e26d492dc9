// The GPT-2 byte alphabet: every byte has a printable letter, so that vocabularies of byte-level BPE are plain text.
// Printable Latin-1 bytes stand for themselves; the other 68 bytes are U+0100, U+0101, ... in order.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace kvern {

inline constexpr bool IsOwnLetter(int byte) {
  return (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
}

// Code point of each byte's letter.
inline constexpr std::array<uint16_t, 256> kLetterOfByte = [] {
  std::array<uint16_t, 256> letters{};
  uint16_t next = 0x100;
  for (int byte = 0; byte < 256; ++byte) letters[byte] = IsOwnLetter(byte) ? static_cast<uint16_t>(byte) : next++;
  return letters;
}();

// The reverse, for code points below 0x144 (the last letter + 1); -1 where the code point is no letter.
inline constexpr std::array<int16_t, 0x144> kByteOfLetter = [] {
  std::array<int16_t, 0x144> bytes{};
  for (int16_t& byte : bytes) byte = -1;
  for (int byte = 0; byte < 256; ++byte) bytes[kLetterOfByte[byte]] = static_cast<int16_t>(byte);
  return bytes;
}();

// Appends `bytes` in the alphabet (UTF-8, at most two bytes a letter).
inline void AppendAsLetters(std::string_view bytes, std::string& out) {
  for (const char c : bytes) {
    const uint16_t letter = kLetterOfByte[static_cast<uint8_t>(c)];
    if (letter < 0x80) {
      out.push_back(static_cast<char>(letter));
    } else {
      out.push_back(static_cast<char>(0xC0 | (letter >> 6)));
      out.push_back(static_cast<char>(0x80 | (letter & 0x3F)));
    }
  }
}

// The bytes that `letters` stand for. What is not in the alphabet stands for itself.
inline std::string BytesOfLetters(std::string_view letters) {
  std::string bytes;
  bytes.reserve(letters.size());
  for (size_t i = 0; i < letters.size(); ++i) {
    const auto lead = static_cast<uint8_t>(letters[i]);
    if (lead >= 0xC2 && lead <= 0xC5 && i + 1 < letters.size()) {
      const auto second = static_cast<uint8_t>(letters[i + 1]);
      const size_t letter = (static_cast<size_t>(lead & 0x1F) << 6) | (second & 0x3F);
      if ((second & 0xC0) == 0x80 && letter < kByteOfLetter.size() && kByteOfLetter[letter] >= 0) {
        bytes.push_back(static_cast<char>(kByteOfLetter[letter]));
        ++i;
        continue;
      }
    }
    bytes.push_back(letters[i]);
  }
  return bytes;
}

}  // namespace kvern
