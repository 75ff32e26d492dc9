#include "cli/load_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

namespace kvern::cli {
namespace {

using ::testing::HasSubstr;

std::vector<double> Times(double rate, uint64_t seed, size_t count) {
  PoissonArrivals arrivals(rate, seed);
  std::vector<double> times(count);
  for (double& time : times) time = arrivals.NextS();
  return times;
}

TEST(LoadPlanTest, EachOptionHasItsLimits) {
  const auto message = [](auto change) {
    LoadPlan plan{.num_requests = 1};
    EXPECT_TRUE(plan.Validate().ok());
    change(plan);
    return plan.Validate().message();
  };
  EXPECT_THAT(message([](LoadPlan& plan) { plan.rate = -1; }), HasSubstr("--rate"));
  EXPECT_THAT(message([](LoadPlan& plan) { plan.duration_s = std::nan(""); }), HasSubstr("--duration"));
  EXPECT_THAT(message([](LoadPlan& plan) { plan.disconnect_share = 1.1; }), HasSubstr("--disconnect-share"));
  EXPECT_THAT(message([](LoadPlan& plan) { plan.num_clients = 0; }), HasSubstr("--clients"));
  EXPECT_THAT(message([](LoadPlan& plan) { plan.num_turns = 0; }), HasSubstr("--turns"));
  EXPECT_THAT(message([](LoadPlan& plan) { plan.max_tokens = 0; }), HasSubstr("--max-tokens"));
  EXPECT_THAT(message([](LoadPlan& plan) { plan.prompt_tokens = 0; }), HasSubstr("--prompt-tokens"));
  EXPECT_THAT(message([](LoadPlan& plan) { plan.shared_tokens = 1u << 21; }), HasSubstr("--shared-tokens"));
  EXPECT_THAT(message([](LoadPlan& plan) { plan.num_requests = 0; }), HasSubstr("--requests"));
}

TEST(PoissonArrivalsTest, TheSeedDecidesTheTimes) {
  EXPECT_EQ(Times(10, 1, 100), Times(10, 1, 100));
  EXPECT_NE(Times(10, 1, 100), Times(10, 2, 100));
}

TEST(PoissonArrivalsTest, TimesAscendAtTheRateAndGapsAreExponential) {
  constexpr size_t kCount = 100'000;
  const std::vector<double> times = Times(50, 7, kCount);

  EXPECT_TRUE(std::ranges::is_sorted(times));
  EXPECT_NEAR(times.back(), kCount / 50.0, 0.02 * kCount / 50.0);  // Six standard deviations.
  size_t num_short = 0;                                            // Gaps below the median, ln 2 / rate.
  for (size_t i = 1; i < times.size(); ++i) num_short += times[i] - times[i - 1] < 0.693147 / 50 ? 1 : 0;
  EXPECT_NEAR(static_cast<double>(num_short) / kCount, 0.5, 0.01);
}

TEST(UniformAtTest, ArgumentsDecideAndNumbersAreSpreadOverTheUnitInterval) {
  EXPECT_EQ(UniformAt(1, 2, 3, 4), UniformAt(1, 2, 3, 4));
  EXPECT_NE(UniformAt(1, 2, 3, 4), UniformAt(2, 2, 3, 4));
  EXPECT_NE(UniformAt(1, 2, 3, 4), UniformAt(1, 2, 4, 4));
  EXPECT_NE(UniformAt(1, 2, 3, 4), UniformAt(1, 2, 3, 5));
  double sum = 0;
  size_t num_below_a_tenth = 0;
  for (uint64_t i = 0; i < 10'000; ++i) {
    const double value = UniformAt(5, i, 0, 0);
    ASSERT_TRUE(value >= 0 && value < 1);
    sum += value;
    num_below_a_tenth += value < 0.1 ? 1 : 0;
  }
  EXPECT_NEAR(sum / 10'000, 0.5, 0.02);
  EXPECT_NEAR(static_cast<double>(num_below_a_tenth), 1000, 200);
}

}  // namespace
}  // namespace kvern::cli
