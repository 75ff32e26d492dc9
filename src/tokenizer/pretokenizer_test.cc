#include "tokenizer/pretokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "tokenizer/vocab.h"

namespace kvern {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<std::string> Split(std::string_view name, std::string_view text) {
  auto pretokenizer = PreTokenizer::Create(name);
  if (!pretokenizer.ok()) {
    ADD_FAILURE() << pretokenizer.status().ToString();
    return {};
  }
  std::vector<uint32_t> ends;
  const Status status = (*pretokenizer)->Split(text, ends);
  EXPECT_TRUE(status.ok()) << status.ToString();
  std::vector<std::string> pieces;
  size_t begin = 0;
  for (const uint32_t end : ends) {
    EXPECT_GT(end, begin);
    pieces.emplace_back(text.substr(begin, end - begin));
    begin = end;
  }
  EXPECT_EQ(begin, text.size());
  return pieces;
}

TEST(PreTokenizerTest, AnUnknownNameIsUnsupportedAndTheKnownOnesAreListed) {
  const auto pretokenizer = PreTokenizer::Create("no-such");

  ASSERT_FALSE(pretokenizer.ok());
  EXPECT_EQ(pretokenizer.status().code(), StatusCode::kUnsupported);
  EXPECT_THAT(pretokenizer.status().message(), HasSubstr("'no-such'"));
  EXPECT_THAT(pretokenizer.status().message(), HasSubstr("smollm, "));
}

TEST(PreTokenizerTest, TheKnownNamesAreSortedAndAllCompile) {
  const auto names = KnownPreTokenizers();

  EXPECT_TRUE(std::is_sorted(names.begin(), names.end()));
  for (const std::string& name : names) EXPECT_TRUE(PreTokenizer::Create(name).ok()) << name;
}

TEST(PreTokenizerTest, LlamaAndTekkenIgnoreMergesAndAddBos) {
  const auto flags = [](const char* name) {
    const auto pretokenizer = PreTokenizer::Create(name);
    EXPECT_TRUE(pretokenizer.ok()) << name;
    return std::pair((*pretokenizer)->ignores_merges(), (*pretokenizer)->adds_bos());
  };
  for (const char* name : {"llama-bpe", "llama3", "llama-v3", "falcon3", "pixtral", "lfm2", "tekken"}) {
    EXPECT_EQ(flags(name), std::pair(true, true)) << name;
  }
  for (const char* name : {"gpt-2", "phi-2", "qwen2", "qwen35", "smollm", "starcoder", "deepseek-llm", "deepseek-v3",
                           "deepseek-coder", "mpt", "falcon", "default"}) {
    EXPECT_EQ(flags(name), std::pair(false, false)) << name;
  }
}

TEST(PreTokenizerTest, Gpt2KeepsOneSpaceWithTheWordAfterIt) {
  EXPECT_THAT(Split("gpt-2", "Hello  world!! 42 it's"), ElementsAre("Hello", " ", " world", "!!", " 42", " it", "'s"));
}

TEST(PreTokenizerTest, Gpt2LeavesSpaceAtTheEndAsOnePiece) {
  EXPECT_THAT(Split("gpt-2", "a   "), ElementsAre("a", "   "));
  EXPECT_THAT(Split("gpt-2", "a\t\tb"), ElementsAre("a", "\t", "\t", "b"));
}

TEST(PreTokenizerTest, Gpt2ContractionsAreLowerCaseOnly) {
  EXPECT_THAT(Split("gpt-2", "we'll WE'LL"), ElementsAre("we", "'ll", " WE", "'", "LL"));
}

TEST(PreTokenizerTest, WhiteSpaceAndClassesAreThoseOfUnicode) {
  EXPECT_THAT(Split("gpt-2", "a\u00A0\u3000b"), ElementsAre("a", "\u00A0", "\u3000", "b"));
  EXPECT_THAT(Split("gpt-2", "é中٣½"), ElementsAre("é中", "٣½"));
}

TEST(PreTokenizerTest, LlamaTakesDigitsByThreeAndContractionsOfAnyCase) {
  EXPECT_THAT(Split("llama-bpe", "12345 IT'S"), ElementsAre("123", "45", " IT", "'S"));
}

TEST(PreTokenizerTest, LlamaJoinsLineEndsWithTheSpaceBeforeThem) {
  EXPECT_THAT(Split("llama-bpe", "a  \n\n  b.\n"), ElementsAre("a", "  \n\n", " ", " b", ".\n"));
  EXPECT_THAT(Split("llama-bpe", "(word\ttab"), ElementsAre("(word", "\ttab"));
}

TEST(PreTokenizerTest, QwenTakesDigitsOneByOne) {
  EXPECT_THAT(Split("qwen2", "x 123\n y"), ElementsAre("x", " ", "1", "2", "3", "\n", " y"));
}

TEST(PreTokenizerTest, Qwen35KeepsMarksWithTheirLetters) {
  EXPECT_THAT(Split("qwen2", "e\u0301a"), ElementsAre("e", "\u0301a"));
  EXPECT_THAT(Split("qwen35", "e\u0301a"), ElementsAre("e\u0301a"));
}

TEST(PreTokenizerTest, SmolLmCutsDigitsBeforeAnythingElse) {
  EXPECT_THAT(Split("smollm", "\n    10."), ElementsAre("\n    ", "1", "0", "."));
  EXPECT_THAT(Split("smollm", "a 7 b"), ElementsAre("a", " ", "7", " b"));
  for (const char* name : {"starcoder", "refact", "command-r", "codeshell", "exaone"}) {
    EXPECT_EQ(Split(name, "\n    10. x"), Split("smollm", "\n    10. x")) << name;
  }
}

TEST(PreTokenizerTest, DeepseekLlmCutsLineEndsLettersPunctuationAndCjk) {
  EXPECT_THAT(Split("deepseek-llm", "a b\n\n你好, 123  "),
              ElementsAre("a", " b", "\n", "\n", "你好", ",", " ", "123", "  "));
  EXPECT_THAT(Split("deepseek-llm", "ΩÉ Äpfel！"), ElementsAre("ΩÉ", " Ä", "pfel", "！"));
}

TEST(PreTokenizerTest, DeepseekLlmCutsSpaceOffTheEndOfAPiece) {
  EXPECT_THAT(Split("deepseek-llm", "😀 😀  "), ElementsAre("😀 😀", "  "));
}

TEST(PreTokenizerTest, DeepseekCoderCutsSingleDigits) {
  EXPECT_THAT(Split("deepseek-coder", "if x1==23:\n"), ElementsAre("if", " x", "1", "==", "2", "3", ":", "\n"));
}

TEST(PreTokenizerTest, DeepseekV3JoinsPunctuationWithLatinLetters) {
  EXPECT_THAT(Split("deepseek-v3", "x.foo 1234かな!"), ElementsAre("x", ".foo", " ", "123", "4", "かな", "!"));
}

TEST(PreTokenizerTest, TekkenCutsWhereTheCaseRises) {
  EXPECT_THAT(Split("tekken", "helloWorldABC DEFghi"), ElementsAre("hello", "World", "ABC", " DEFghi"));
  EXPECT_THAT(Split("tekken", "a/b 12 ./\n"), ElementsAre("a", "/b", " ", "1", "2", " ./\n"));
  EXPECT_THAT(Split("tekken", "éÉcole中A"), ElementsAre("éÉcole中", "A"));
}

TEST(PreTokenizerTest, MptIsGpt2) {
  EXPECT_EQ(Split("mpt", "Hello  world!! 42 it's "), Split("gpt-2", "Hello  world!! 42 it's "));
}

TEST(PreTokenizerTest, FalconCutsPunctuationFirstAndDigitsByThreeLast) {
  EXPECT_THAT(Split("falcon", "a `b` 12345"), ElementsAre("a", " ", "`", "b", "`", " ", "123", "45"));
}

TEST(PreTokenizerTest, DefaultCutsNumbersFromTheirSpace) {
  EXPECT_THAT(Split("default", "it's 12345!"), ElementsAre("it", "'", "s", " ", "123", "45", "!"));
}

TEST(PreTokenizerTest, IllFormedBytesAreAPieceOfTheirOwn) {
  EXPECT_THAT(Split("smollm", "ab\xFF\xFE cd\xE2\x82"), ElementsAre("ab", "\xFF\xFE", " cd", "\xE2\x82"));
  EXPECT_THAT(Split("smollm", "\x80"), ElementsAre("\x80"));
}

TEST(PreTokenizerTest, NothingHasNoPieces) { EXPECT_THAT(Split("smollm", ""), ElementsAre()); }

// A long run must neither exhaust the stack of compiled expressions (that would silently change the pieces) nor take
// time that grows with its square.
TEST(PreTokenizerTest, LongRunsSplitAsShortOnesDo) {
  constexpr size_t kNumRepeats = 1 << 16;
  std::string long_text;
  for (const std::string name : {"gpt-2", "llama-bpe", "qwen2", "qwen35", "smollm", "deepseek-llm", "deepseek-coder",
                                 "deepseek-v3", "tekken", "falcon", "default"}) {
    for (const char* unit : {"a", "A", "é", "中", " ", "\t", "\n", "!", "😀", "\u0301"}) {
      long_text.clear();
      for (size_t i = 0; i < kNumRepeats; ++i) long_text += unit;
      for (const char* tail : {"", "7", "x", "."}) {
        const auto pieces = Split(name, long_text + tail);
        ASSERT_LE(pieces.size(), kNumRepeats + 2) << name << " " << unit << tail;
        if (std::string_view("aA中 ").find(unit) != std::string_view::npos && *tail == '\0') {
          ASSERT_EQ(pieces.size(), 1u) << name << " " << unit;
        }
      }
    }
  }
}

TEST(PreTokenizerTest, PiecesCoverAnyBytes) {
  std::mt19937 random(11);
  const std::string alphabet[] = {"a",  "Z", "é",  "中", "😀",      " ",      "\n",   "\r",
                                  "\t", "1", "'s", ".",  "\u0301", "\u00A0", "\xFF", "\xE2\x82"};
  for (const std::string& name : KnownPreTokenizers()) {
    for (int round = 0; round < 50; ++round) {
      std::string text;
      for (unsigned i = 0, count = random() % 30; i < count; ++i) text += alphabet[random() % std::size(alphabet)];
      std::string joined;
      for (const std::string& piece : Split(name, text)) joined += piece;
      ASSERT_EQ(joined, text) << name;
    }
  }
}

}  // namespace
}  // namespace kvern
