#include <gtest/gtest.h>

#include <random>

#include "kvern/tokenizer.h"
#include "tokenizer/utf8.h"

namespace kvern {
namespace {

// Token i is the byte i; token 256 is a control token, 257 the word "word".
class ByteTokenizer final : public Tokenizer {
 public:
  Result<std::vector<TokenId>> Encode(std::string_view text, const EncodeOptions&) const override {
    std::vector<TokenId> ids;
    for (const char c : text) ids.push_back(static_cast<uint8_t>(c));
    return ids;
  }
  std::string TokenBytes(TokenId token, bool render_special) const override {
    if (token == 256) return render_special ? "<end>" : "";
    if (token == 257) return "word";
    return std::string(1, static_cast<char>(token));
  }
  std::string Decode(const std::vector<TokenId>&, bool) const override { return {}; }
  size_t vocab_size() const override { return 258; }
  std::optional<TokenId> bos() const override { return std::nullopt; }
  std::optional<TokenId> eos() const override { return 256; }
  bool IsEndOfGeneration(TokenId token) const override { return token == 256; }
  bool IsControl(TokenId token) const override { return token == 256; }
  std::string Description() const override { return "bytes"; }
};

// What each byte of `bytes` lets out, with '|' between, and what Finish adds after '!'.
std::string Stream(std::string_view bytes) {
  const ByteTokenizer tokenizer;
  StreamDecoder decoder(tokenizer);
  std::string out;
  for (const char c : bytes) out += decoder.Push(static_cast<uint8_t>(c)) + "|";
  return out + "!" + decoder.Finish();
}

TEST(StreamDecoderTest, CharactersComeWhole) {
  EXPECT_EQ(Stream("a"), "a|!");
  EXPECT_EQ(Stream("é"), "|é|!");
  EXPECT_EQ(Stream("€"), "||€|!");
  EXPECT_EQ(Stream("😀x"), "|||😀|x|!");
}

TEST(StreamDecoderTest, ACutCharacterBecomesOneReplacementAtTheEnd) {
  EXPECT_EQ(Stream("\xC3"), "|!\uFFFD");
  EXPECT_EQ(Stream("\xE2\x82"), "||!\uFFFD");
  EXPECT_EQ(Stream("\xF0\x9F\x98"), "|||!\uFFFD");
}

TEST(StreamDecoderTest, ACharacterThatIsCutShortIsReplacedAsSoonAsThatIsKnown) {
  EXPECT_EQ(Stream("\xE2\x82z"), "||\uFFFDz|!");
  EXPECT_EQ(Stream("\xF0\x9F\xC3\xA9"), "||\uFFFD|é|!");
}

TEST(StreamDecoderTest, BytesThatNeverBeginACharacterAreReplacedAtOnce) {
  EXPECT_EQ(Stream("\x80"), "\uFFFD|!");
  EXPECT_EQ(Stream("\xFF\xFE"), "\uFFFD|\uFFFD|!");
}

TEST(StreamDecoderTest, OverlongFormsAreReplaced) {
  EXPECT_EQ(Stream("\xC0\x80"), "\uFFFD|\uFFFD|!");
  EXPECT_EQ(Stream("\xE0\x80\x80"), "|\uFFFD\uFFFD|\uFFFD|!");
}

TEST(StreamDecoderTest, SurrogatesAreReplaced) { EXPECT_EQ(Stream("\xED\xA0\x80"), "|\uFFFD\uFFFD|\uFFFD|!"); }

TEST(StreamDecoderTest, CodePointsPastTheLastAreReplaced) {
  EXPECT_EQ(Stream("\xF4\x90\x80\x80"), "|\uFFFD\uFFFD|\uFFFD|\uFFFD|!");
}

TEST(StreamDecoderTest, AControlTokenIsSilentUnlessItIsToBeRendered) {
  const ByteTokenizer tokenizer;
  StreamDecoder silent(tokenizer);
  StreamDecoder rendering(tokenizer, /*render_special=*/true);

  EXPECT_EQ(silent.Push(256), "");
  EXPECT_EQ(rendering.Push(256), "<end>");
  EXPECT_EQ(silent.Finish(), "");
}

TEST(StreamDecoderTest, ATokenMayEndOneCharacterAndBeginAnother) {
  const ByteTokenizer tokenizer;
  StreamDecoder decoder(tokenizer);

  EXPECT_EQ(decoder.Push(0xC3), "");
  EXPECT_EQ(decoder.Push(257), "\uFFFDword");
}

TEST(StreamDecoderTest, AfterFinishANewTextMayBegin) {
  const ByteTokenizer tokenizer;
  StreamDecoder decoder(tokenizer);
  decoder.Push(0xE2);

  EXPECT_EQ(decoder.Finish(), "\uFFFD");
  EXPECT_EQ(decoder.Push('a'), "a");
}

TEST(StreamDecoderTest, WhatComesOutIsAlwaysWellFormedAndKeepsEveryCharacter) {
  std::mt19937 random(7);
  const std::string alphabet[] = {"a", "é", "€", "😀", "\x80", "\xE2", "\xF0\x9F", "\xED\xA0", "\xC0", "\xF4\x90"};
  for (int round = 0; round < 2000; ++round) {
    std::string bytes;
    for (unsigned i = 0, count = random() % 12; i < count; ++i) bytes += alphabet[random() % std::size(alphabet)];
    const ByteTokenizer tokenizer;
    StreamDecoder decoder(tokenizer);

    std::string out;
    for (const char c : bytes) {
      const std::string part = decoder.Push(static_cast<uint8_t>(c));
      ASSERT_EQ(WellFormedPrefix(part), part.size());
      out += part;
    }
    out += decoder.Finish();

    if (WellFormedPrefix(bytes) == bytes.size()) {
      EXPECT_EQ(out, bytes);
    }
  }
}

}  // namespace
}  // namespace kvern
