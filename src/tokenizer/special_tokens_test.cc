#include "tokenizer/special_tokens.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>

namespace kvern {
namespace {

// Matches as "begin-end:id ".
std::string Show(const std::vector<SpecialMatch>& matches) {
  std::string out;
  for (const SpecialMatch& match : matches) {
    out += std::to_string(match.begin) + "-" + std::to_string(match.end) + ":" + std::to_string(match.id) + " ";
  }
  return out;
}

std::string Find(const std::vector<SpecialToken>& tokens, std::string_view text) {
  return Show(SpecialTokenMatcher(tokens).Find(text));
}

// The definition: one token after the other, longest first, ties by id, cut out of what is left.
std::string FindOneByOne(std::vector<SpecialToken> tokens, const std::string& text) {
  std::sort(tokens.begin(), tokens.end(), [](const SpecialToken& a, const SpecialToken& b) {
    return a.text.size() != b.text.size() ? a.text.size() > b.text.size() : a.id < b.id;
  });
  std::vector<SpecialMatch> matches;
  std::vector<bool> taken(text.size());
  for (const SpecialToken& token : tokens) {
    for (size_t at = 0; at + token.text.size() <= text.size();) {
      const size_t end = at + token.text.size();
      const bool is_free = std::none_of(taken.begin() + static_cast<ptrdiff_t>(at),
                                        taken.begin() + static_cast<ptrdiff_t>(end), [](bool b) { return b; });
      if (is_free && text.compare(at, token.text.size(), token.text) == 0) {
        std::fill(taken.begin() + static_cast<ptrdiff_t>(at), taken.begin() + static_cast<ptrdiff_t>(end), true);
        matches.push_back({at, end, token.id});
        at = end;
      } else {
        ++at;
      }
    }
  }
  std::sort(matches.begin(), matches.end(),
            [](const SpecialMatch& a, const SpecialMatch& b) { return a.begin < b.begin; });
  return Show(matches);
}

TEST(SpecialTokenMatcherTest, FindsNothingWithoutTokensOrText) {
  EXPECT_EQ(Find({}, "abc"), "");
  EXPECT_EQ(Find({{"", 1}}, "abc"), "");
  EXPECT_EQ(Find({{"a", 1}}, ""), "");
}

TEST(SpecialTokenMatcherTest, TheLongestTokenGoesFirstEvenIfAnotherBeginsEarlier) {
  EXPECT_EQ(Find({{"ab", 1}, {"bcd", 2}}, "abcd"), "1-4:2 ");
}

TEST(SpecialTokenMatcherTest, WhatIsLeftIsSearchedForShorterTokens) {
  EXPECT_EQ(Find({{"a", 1}, {"aa", 2}, {"aaaa", 4}}, "aaaaaaa"), "0-4:4 4-6:2 6-7:1 ");
  EXPECT_EQ(Find({{"ab", 1}, {"b", 3}, {"bcd", 2}}, "babcd"), "0-1:3 2-5:2 ");
}

TEST(SpecialTokenMatcherTest, EqualLengthsGoById) {
  EXPECT_EQ(Find({{"bc", 1}, {"ab", 2}}, "abc"), "1-3:1 ");
  EXPECT_EQ(Find({{"bc", 2}, {"ab", 1}}, "abc"), "0-2:1 ");
}

TEST(SpecialTokenMatcherTest, AgreesWithCuttingOneByOne) {
  std::mt19937 random(5);
  for (int round = 0; round < 3000; ++round) {
    std::vector<std::string> texts;
    for (unsigned i = 0, count = 1 + random() % 8; i < count; ++i) {
      std::string text;
      for (unsigned k = 0, length = 1 + random() % 6; k < length; ++k) text += "ab\xFF"[random() % 3];
      if (std::find(texts.begin(), texts.end(), text) == texts.end()) texts.push_back(text);
    }
    std::vector<SpecialToken> tokens;
    for (size_t i = 0; i < texts.size(); ++i) tokens.push_back({texts[i], static_cast<TokenId>(i)});
    std::string text;
    for (unsigned k = 0, length = random() % 40; k < length; ++k) text += "ab\xFF"[random() % 3];

    ASSERT_EQ(Find(tokens, text), FindOneByOne(tokens, text)) << text;
  }
}

TEST(SpecialTokenMatcherTest, RunsOfSpacesOfEveryLengthAreCutGreedily) {
  std::vector<std::string> texts;
  for (size_t length = 2; length <= 31; ++length) texts.emplace_back(length, ' ');
  std::vector<SpecialToken> tokens;
  for (const std::string& text : texts) tokens.push_back({text, static_cast<TokenId>(text.size())});
  const std::string text(31 * 1000 + 5, ' ');

  const auto matches = SpecialTokenMatcher(tokens).Find(text);

  ASSERT_EQ(matches.size(), 1001u);
  EXPECT_EQ(matches.front().id, 31);
  EXPECT_EQ(matches.back().id, 5);
}

}  // namespace
}  // namespace kvern
