#include "kvcache/free_runs.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

namespace kvern {
namespace {

TEST(FreeRunsTest, NeighboursJoinAgain) {
  FreeRuns runs(10);

  runs.Take({3, 4});
  EXPECT_EQ(runs.num_free(), 6u);
  EXPECT_EQ(runs.num_runs(), 2u);
  runs.Give({4, 2});
  EXPECT_EQ(runs.num_runs(), 3u);
  runs.Give({3, 1});
  runs.Give({6, 1});

  EXPECT_EQ(runs.num_runs(), 1u);
  EXPECT_EQ(runs.Longest()->count, 10u);
}

TEST(FreeRunsTest, BestFitLeavesLongRunsAlone) {
  FreeRuns runs(100);
  runs.Take({5, 1});   // 0..4
  runs.Take({9, 1});   // 6..8
  runs.Take({30, 1});  // 10..29, 31..99

  EXPECT_EQ(runs.BestFit(3)->begin, 6u);
  EXPECT_EQ(runs.BestFit(4)->begin, 0u);
  EXPECT_EQ(runs.BestFit(6)->begin, 10u);
  EXPECT_EQ(runs.BestFit(69)->begin, 31u);
  EXPECT_FALSE(runs.BestFit(70).has_value());
  EXPECT_EQ(runs.CountFrom(7), 2u);
  EXPECT_EQ(runs.CountFrom(9), 0u);
}

TEST(FreeRunsTest, RandomMovesAgreeWithABitmap) {
  constexpr uint32_t kBlocks = 61;
  FreeRuns runs(kBlocks);
  std::vector<bool> is_free(kBlocks, true);
  std::mt19937 random(3);

  for (int step = 0; step < 20000; ++step) {
    const uint32_t begin = random() % kBlocks;
    const uint32_t count = std::min(kBlocks - begin, static_cast<uint32_t>(random() % 8));
    const auto first = is_free.begin() + begin, last = first + count;
    if (std::all_of(first, last, [](bool b) { return b; })) {
      runs.Take({begin, count});
      std::fill(first, last, false);
    } else if (std::none_of(first, last, [](bool b) { return b; })) {
      runs.Give({begin, count});
      std::fill(first, last, true);
    }

    uint32_t longest = 0, length = 0, num_runs = 0;
    for (uint32_t i = 0; i < kBlocks; ++i) {
      length = is_free[i] ? length + 1 : 0;
      num_runs += length == 1 ? 1 : 0;
      longest = std::max(longest, length);
    }
    ASSERT_EQ(runs.num_free(), static_cast<uint64_t>(std::count(is_free.begin(), is_free.end(), true)));
    ASSERT_EQ(runs.num_runs(), num_runs);
    ASSERT_EQ(runs.Longest().has_value() ? runs.Longest()->count : 0, longest);
    ASSERT_EQ(runs.BestFit(longest + 1).has_value(), false);
  }
}

}  // namespace
}  // namespace kvern
