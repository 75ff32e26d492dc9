#include "engine/stop_checker.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

namespace kvern {
namespace {

TEST(StopCheckerTest, WithoutStopStringsTextPassesAtOnce) {
  StopChecker checker({});

  EXPECT_EQ(checker.Push("abc"), "abc");
  EXPECT_EQ(checker.Finish(), "");
}

TEST(StopCheckerTest, TextBeforeTheStopStringIsKept) {
  StopChecker checker({"END"});

  EXPECT_EQ(checker.Push("one END two"), "one ");
  EXPECT_TRUE(checker.is_stopped());
  EXPECT_EQ(checker.Push("more"), "");
  EXPECT_EQ(checker.Finish(), "");
}

TEST(StopCheckerTest, TextThatMayBeginAStopStringWaits) {
  StopChecker checker({"</s>"});

  EXPECT_EQ(checker.Push("a <"), "a ");
  EXPECT_EQ(checker.Push("/"), "");
  EXPECT_EQ(checker.Push("b"), "</b");
  EXPECT_EQ(checker.Push("<"), "");
  EXPECT_EQ(checker.Push("/s"), "");
  EXPECT_EQ(checker.Push(">!"), "");
  EXPECT_TRUE(checker.is_stopped());
}

TEST(StopCheckerTest, WhatWaitedComesAtTheEnd) {
  StopChecker checker({"</s>"});

  EXPECT_EQ(checker.Push("a</"), "a");
  EXPECT_EQ(checker.Finish(), "</");
  EXPECT_EQ(checker.Finish(), "");
}

TEST(StopCheckerTest, OnlyTheLongestSuffixThatBeginsAStopStringWaits) {
  StopChecker checker({"aab"});

  EXPECT_EQ(checker.Push("aaa"), "a");
  EXPECT_EQ(checker.Push("b"), "");
  EXPECT_TRUE(checker.is_stopped());
}

TEST(StopCheckerTest, TheFirstToEndWinsAndOfThoseTheLongest) {
  StopChecker first({"bcd", "cd", "abcde"});
  EXPECT_EQ(first.Push("xabcde"), "xa");

  StopChecker second({"de", "bcde"});
  EXPECT_EQ(second.Push("abcdef"), "a");
}

TEST(StopCheckerTest, CharactersOfSeveralBytesAreNeverCut) {
  StopChecker checker({"\xC3\xA9\xC3\xA8"});  // "éè"

  EXPECT_EQ(checker.Push("\xC3\xA9"), "");
  EXPECT_EQ(checker.Push("\xC3\xAA"), "\xC3\xA9\xC3\xAA");  // Same lead byte, other character.
}

// Oracle: scan the whole text one byte at a time.
std::pair<std::string, bool> NaiveStop(const std::string& text, const std::vector<std::string>& stops) {
  for (size_t end = 1; end <= text.size(); ++end) {
    size_t best = std::string::npos;
    for (const std::string& stop : stops) {
      if (end >= stop.size() && text.compare(end - stop.size(), stop.size(), stop) == 0) {
        best = std::min(best, end - stop.size());
      }
    }
    if (best != std::string::npos) return {text.substr(0, best), true};
  }
  return {text, false};
}

TEST(StopCheckerTest, AnyCutOfTheTextGivesTheSameOutcome) {
  std::mt19937 random(1);
  const auto word = [&random](size_t n) {
    std::string text;
    for (size_t i = 0; i < n; ++i) text += static_cast<char>('a' + random() % 2);
    return text;
  };
  for (int round = 0; round < 3000; ++round) {
    std::vector<std::string> stops(1 + random() % 3);
    for (std::string& stop : stops) stop = word(1 + random() % 6);
    const std::string text = word(random() % 30);
    StopChecker checker(stops);

    std::string out;
    for (size_t at = 0; at < text.size();) {
      const size_t n = 1 + random() % 4;
      out += checker.Push(text.substr(at, n));
      at += n;
    }
    out += checker.Finish();

    const auto [expected, is_stopped] = NaiveStop(text, stops);
    ASSERT_EQ(out, expected);
    ASSERT_EQ(checker.is_stopped(), is_stopped);
  }
}

}  // namespace
}  // namespace kvern
