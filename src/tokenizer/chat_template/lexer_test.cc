#include "tokenizer/chat_template/lexer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace kvern::jinja {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<std::string> Texts(std::string_view source) {
  const auto tokens = Tokenize(source);
  EXPECT_TRUE(tokens.ok()) << tokens.status().ToString();
  std::vector<std::string> texts;
  if (!tokens.ok()) return texts;
  for (const Token& token : *tokens) texts.emplace_back(token.text);
  texts.pop_back();  // The end.
  return texts;
}

TEST(LexerTest, ATagIsCutIntoItsParts) {
  EXPECT_THAT(Texts("{{ a.b[1_0] // 2.5e3 != 'x y' }}"),
              ElementsAre("{{", "a", ".", "b", "[", "1_0", "]", "//", "2.5e3", "!=", "x y", "}}"));
}

TEST(LexerTest, BracesInsideATagDoNotEndIt) {
  EXPECT_THAT(Texts("{{ {'a': {}} }}"), ElementsAre("{{", "{", "a", ":", "{", "}", "}", "}}"));
}

TEST(LexerTest, TheNewlineAfterABlockAndSpacesBeforeItAreDropped) {
  EXPECT_THAT(Texts("a\n  {% b %}\n  c"), ElementsAre("a\n", "{%", "b", "%}", "  c"));
}

TEST(LexerTest, SpacesBeforeABlockThatBeginsNoLineStay) {
  EXPECT_THAT(Texts("a  {% b %}c"), ElementsAre("a  ", "{%", "b", "%}", "c"));
}

TEST(LexerTest, AMinusDropsAllWhiteSpaceAndAPlusKeepsIt) {
  EXPECT_THAT(Texts("a \n {{- b -}} \n c"), ElementsAre("a", "{{-", "b", "-}}", "c"));
  EXPECT_THAT(Texts("a\n  {%+ b +%}\nc"), ElementsAre("a\n  ", "{%+", "b", "+%}", "\nc"));
}

TEST(LexerTest, RawTextIsNotCut) {
  EXPECT_THAT(Texts("{% raw %}{{ x }}{# y #}{% endraw %}"), ElementsAre("{{ x }}{# y #}"));
}

TEST(LexerTest, CommentsVanish) { EXPECT_THAT(Texts("a{# {{ x }} #}b"), ElementsAre("a", "b")); }

TEST(LexerTest, WhatHasNoEndIsNamedByItsBegin) {
  EXPECT_THAT(Tokenize("x\n {{ 'abc }}").status().message(), HasSubstr("line 2, column 5: this string has no end"));
  EXPECT_THAT(Tokenize("{{ a ").status().message(), HasSubstr("line 1, column 1: this tag has no end"));
  EXPECT_THAT(Tokenize("ab{# c").status().message(), HasSubstr("line 1, column 3: this comment has no end"));
}

TEST(LexerTest, NewlinesBecomeOneKindAndTheLastIsDropped) { EXPECT_EQ(NormalizedSource("a\r\nb\rc\n\n"), "a\nb\nc\n"); }

}  // namespace
}  // namespace kvern::jinja
