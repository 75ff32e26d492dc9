#include "tokenizer/utf8.h"

#include <gtest/gtest.h>

#include <string>

namespace kvern {
namespace {

std::string Encode(uint32_t c, int length) {
  std::string out;
  if (length == 1) return std::string(1, static_cast<char>(c));
  const int lead = length == 2 ? 0xC0 : length == 3 ? 0xE0 : 0xF0;
  out += static_cast<char>(lead | static_cast<int>(c >> (6 * (length - 1))));
  for (int i = length - 2; i >= 0; --i) out += static_cast<char>(0x80 | ((c >> (6 * i)) & 0x3F));
  return out;
}

TEST(Utf8Test, EveryCodePointButSurrogatesIsOneCharacter) {
  for (uint32_t c = 0; c < 0x110000; ++c) {
    const int length = c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    const bool is_surrogate = c >= 0xD800 && c < 0xE000;
    const std::string text = Encode(c, length);

    const Utf8Step step = NextUtf8(text);

    ASSERT_EQ(step.kind == Utf8Kind::kCharacter, !is_surrogate) << c;
    if (!is_surrogate) {
      ASSERT_EQ(step.length, text.size()) << c;
    }
  }
}

TEST(Utf8Test, OverlongFormsAreIllFormed) {
  for (int length = 2; length <= 4; ++length) {
    const uint32_t first_of_length = length == 2 ? 0x80 : length == 3 ? 0x800 : 0x10000;
    for (uint32_t c = 0; c < first_of_length; c += 7) {
      EXPECT_EQ(NextUtf8(Encode(c, length)).kind, Utf8Kind::kIllFormed) << c;
    }
  }
}

TEST(Utf8Test, CodePointsAboveTheLastOneAreIllFormed) {
  EXPECT_EQ(NextUtf8("\xF4\x90\x80\x80").kind, Utf8Kind::kIllFormed);
  EXPECT_EQ(NextUtf8("\xF5\x80\x80\x80").kind, Utf8Kind::kIllFormed);
  EXPECT_EQ(NextUtf8("\xFF").kind, Utf8Kind::kIllFormed);
}

TEST(Utf8Test, ATextThatEndsInsideACharacterIsIncomplete) {
  for (const std::string text : {"\xC3\xA9", "\xE2\x82\xAC", "\xF0\x9F\x98\x80"}) {
    for (size_t cut = 1; cut < text.size(); ++cut) {
      const Utf8Step step = NextUtf8(text.substr(0, cut));
      EXPECT_EQ(step.kind, Utf8Kind::kIncomplete);
      EXPECT_EQ(step.length, cut);
    }
  }
}

TEST(Utf8Test, IllFormedBytesEndWhereACharacterMayBegin) {
  EXPECT_EQ(NextUtf8("\xF0\x9F\x98x").length, 3u);
  EXPECT_EQ(NextUtf8("\xE2\x82\xC3\xA9").length, 2u);
  EXPECT_EQ(NextUtf8("\x80\x80").length, 1u);
}

TEST(Utf8Test, WellFormedPrefixStopsBeforeTheFirstIllFormedByte) {
  EXPECT_EQ(WellFormedPrefix(""), 0u);
  EXPECT_EQ(WellFormedPrefix("ab\xC3\xA9"), 4u);
  EXPECT_EQ(WellFormedPrefix("ab\xC3\xA9\xFFz"), 4u);
  EXPECT_EQ(WellFormedPrefix("ab\xC3"), 2u);
}

}  // namespace
}  // namespace kvern
