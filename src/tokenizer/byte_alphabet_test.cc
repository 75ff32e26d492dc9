#include "tokenizer/byte_alphabet.h"

#include <gtest/gtest.h>

namespace kvern {
namespace {

TEST(ByteAlphabetTest, LettersOfAllBytesLeadBackToThem) {
  std::string bytes;
  for (int byte = 0; byte < 256; ++byte) bytes.push_back(static_cast<char>(byte));

  std::string letters;
  AppendAsLetters(bytes, letters);

  EXPECT_EQ(BytesOfLetters(letters), bytes);
}

TEST(ByteAlphabetTest, KnownLetters) {
  std::string letters;
  AppendAsLetters(" \n!a~\x7F\xA0\xAD\xFF", letters);

  EXPECT_EQ(letters, "ĠĊ!a~ġłŃÿ");
}

TEST(ByteAlphabetTest, WhatIsNoLetterStandsForItself) {
  EXPECT_EQ(BytesOfLetters("｜ 中Ġ"), "｜ 中 ");
  EXPECT_EQ(BytesOfLetters("ń"), "ń");  // U+0144 follows the last letter.
  EXPECT_EQ(BytesOfLetters("\xC4"), "\xC4");
}

}  // namespace
}  // namespace kvern
