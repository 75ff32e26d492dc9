#include "cli/perplexity.h"

#include <gtest/gtest.h>

#include <cmath>

namespace kvern::cli {
namespace {

TEST(ChunkedWindowsTest, ScoreTheSecondHalfOfEachWholeChunk) {
  const auto windows = *ChunkedWindows(1100, 512);

  ASSERT_EQ(windows.size(), 2u);
  EXPECT_EQ(windows[1].begin, 512u);
  EXPECT_EQ(windows[1].end, 1024u);
  EXPECT_EQ(windows[1].end - windows[1].first_scored, 255u);  // As llama-perplexity: n - 1 - n / 2 per chunk.
}

TEST(ChunkedWindowsTest, ScoreFromTheGivenTokenOfEachChunk) {
  const auto windows = *ChunkedWindows(1100, 512, /*score_from=*/100);

  ASSERT_EQ(windows.size(), 2u);
  EXPECT_EQ(windows[0].first_scored, 100u);
  EXPECT_EQ(windows[1].first_scored, 612u);
  EXPECT_FALSE(ChunkedWindows(1100, 512, 512).ok());
}

TEST(ChunkedWindowsTest, RefuseATextShorterThanOneChunk) {
  EXPECT_FALSE(ChunkedWindows(511, 512).ok());
  EXPECT_FALSE(ChunkedWindows(10, 3).ok());
}

TEST(SlidingWindowsTest, ScoreEveryTokenButTheFirstOnce) {
  for (const size_t num_tokens : {2u, 9u, 10u, 11u, 25u, 100u}) {
    for (const size_t stride : {1u, 3u, 9u}) {
      size_t next = 1;
      const auto windows = SlidingWindows(num_tokens, /*size=*/10, stride);
      ASSERT_TRUE(windows.ok());
      for (const ScoreWindow& window : *windows) {
        EXPECT_EQ(window.first_scored, next);
        EXPECT_GT(window.first_scored, window.begin);
        EXPECT_LE(window.end - window.begin, 10u);
        next = window.end;
      }
      EXPECT_EQ(next, num_tokens);
    }
  }
}

TEST(SlidingWindowsTest, RefuseStridesThatLeaveGapsOrStandStill) {
  EXPECT_FALSE(SlidingWindows(100, 10, 0).ok());
  EXPECT_FALSE(SlidingWindows(100, 10, 10).ok());
  EXPECT_FALSE(SlidingWindows(1, 10, 5).ok());
}

TEST(NllMeanTest, GivesMeanErrorAndPerplexity) {
  NllMean nll;
  for (const float log_prob : {-1.0f, -2.0f, -3.0f}) nll.Add(log_prob);

  EXPECT_DOUBLE_EQ(nll.mean(), 2.0);
  EXPECT_NEAR(nll.standard_error(), std::sqrt((2.0 / 3) / 2), 1e-12);
  EXPECT_DOUBLE_EQ(nll.perplexity(), std::exp(2.0));
}

TEST(NllMeanTest, HasNoErrorBeforeTwoTokens) {
  NllMean nll;
  EXPECT_EQ(nll.standard_error(), 0);
  nll.Add(-1.5f);
  EXPECT_EQ(nll.standard_error(), 0);
}

}  // namespace
}  // namespace kvern::cli
