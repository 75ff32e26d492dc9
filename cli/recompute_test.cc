#include "cli/recompute.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

namespace kvern::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

CacheOptions Window(uint32_t window_tokens, uint32_t num_sinks) {
  CacheOptions cache;
  cache.window_tokens = window_tokens;
  cache.num_sinks = num_sinks;
  return cache;
}

TEST(RecomputedWindowTest, TargetsHaveMoreThanWindowAndSinksBeforeThem) {
  const RecomputedWindow window = *RecomputedWindow::Create(Window(16, 4), /*every=*/5);

  EXPECT_THAT(window.Targets(/*num_tokens=*/33, /*first_scored=*/1), ElementsAre(21u, 26u, 31u));
  EXPECT_THAT(window.Targets(33, 25), ElementsAre(25u, 30u));
  EXPECT_THAT(window.Targets(21, 1), IsEmpty());
}

TEST(RecomputedWindowTest, AContextIsTheSinksTheWindowAndTheTokenItself) {
  const RecomputedWindow window = *RecomputedWindow::Create(Window(16, 2), /*every=*/1);
  std::vector<TokenId> tokens(40);
  std::iota(tokens.begin(), tokens.end(), 0);

  const std::vector<TokenId> alone = window.Context(tokens, /*target=*/30, /*num_sinks=*/0);
  const std::vector<TokenId> with_sinks = window.Context(tokens, 30, 2);

  EXPECT_THAT(alone, ElementsAre(14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30));
  EXPECT_EQ(std::vector<TokenId>(with_sinks.begin() + 2, with_sinks.end()), alone);
  EXPECT_EQ(with_sinks[0], 0);
  EXPECT_EQ(with_sinks[1], 1);
  EXPECT_EQ(window.TokensPerTarget(), alone.size() + with_sinks.size());
}

TEST(RecomputedWindowTest, WhatCannotBeRecomputedIsRefused) {
  EXPECT_THAT(RecomputedWindow::Create({}, 1).status().message(), HasSubstr("--window"));
  CacheOptions cache = Window(64, 4);
  EXPECT_THAT(RecomputedWindow::Create(cache, 0).status().message(), HasSubstr("0"));
  cache.global_tokens = {{10, 20}};
  EXPECT_THAT(RecomputedWindow::Create(cache, 1).status().message(), HasSubstr("--global"));
}

}  // namespace
}  // namespace kvern::cli
