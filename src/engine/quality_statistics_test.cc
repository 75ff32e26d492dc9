#include "engine/quality_statistics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "kernels/dispatch.h"

namespace kvern {
namespace {

using ::testing::ElementsAre;

const KernelTable& Kernels() { return *RunnableTargets().front(); }

RowDivergence Compare(const std::vector<float>& reference, const std::vector<float>& candidate, TokenId target) {
  std::vector<float> scratch(reference.size());
  return CompareRows(reference, candidate, target, Kernels(), scratch);
}

// Logits whose softmax is p.
std::vector<float> LogitsOf(const std::vector<double>& p, double shift = 0) {
  std::vector<float> logits;
  for (const double x : p) logits.push_back(static_cast<float>(std::log(x) + shift));
  return logits;
}

TEST(CompareRowsTest, KnownDistributionsGiveTheDivergenceOfTheTextbook) {
  const std::vector<double> p = {0.5, 0.25, 0.125, 0.125}, q = {0.25, 0.5, 0.125, 0.125};

  const RowDivergence row = Compare(LogitsOf(p), LogitsOf(q, 3), 1);

  EXPECT_NEAR(row.kld, 0.5 * std::log(2) - 0.25 * std::log(2), 1e-6);
  EXPECT_NEAR(row.delta_p, 0.25, 1e-6);
  EXPECT_NEAR(row.delta_nll, -std::log(2), 1e-6);
  EXPECT_NEAR(row.reference_nll, std::log(4), 1e-6);
  EXPECT_FALSE(row.is_same_top);
}

TEST(CompareRowsTest, EqualLogitsDifferByExactlyNothing) {
  std::vector<float> logits;
  for (int i = 0; i < 1001; ++i) logits.push_back(static_cast<float>(std::sin(i) * 9));

  const RowDivergence row = Compare(logits, logits, 17);

  EXPECT_EQ(row.kld, 0);
  EXPECT_EQ(row.delta_p, 0);
  EXPECT_EQ(row.delta_nll, 0);
  EXPECT_TRUE(row.is_same_top);
}

TEST(CompareRowsTest, ACandidateThatIsNotFiniteIsInfinitelyFar) {
  std::vector<float> candidate = {1, 2, 3, 4};
  candidate[2] = std::numeric_limits<float>::quiet_NaN();

  const RowDivergence row = Compare({1, 2, 3, 4}, candidate, 0);

  EXPECT_EQ(row.kld, std::numeric_limits<double>::infinity());
  EXPECT_FALSE(row.is_same_top);
}

TEST(QualityStatisticsTest, MeanAndItsErrorAreThoseOfAKnownSample) {
  const Estimate mean = MeanOf(std::vector<double>{2, 4, 4, 4, 5, 5, 7, 9});

  EXPECT_DOUBLE_EQ(mean.value, 5);
  EXPECT_DOUBLE_EQ(mean.error, std::sqrt(32.0 / 7 / 8));
  EXPECT_EQ(MeanOf(std::vector<double>{3}).error, 0);
  EXPECT_EQ(MeanOf({}).value, 0);
}

TEST(QualityStatisticsTest, RootMeanSquareHasItsErrorToFirstOrder) {
  const Estimate root = RootMeanSquareOf(std::vector<double>{-1, 1, -3, 3});

  EXPECT_DOUBLE_EQ(root.value, std::sqrt(5.0));
  EXPECT_DOUBLE_EQ(root.error, std::sqrt(64.0 / 3 / 4) / (2 * std::sqrt(5.0)));
}

TEST(QualityStatisticsTest, SharesHaveTheErrorOfABinomialCount) {
  const Estimate share = ShareOf(90, 101);

  EXPECT_DOUBLE_EQ(share.value, 90.0 / 101);
  EXPECT_DOUBLE_EQ(share.error, std::sqrt(90.0 / 101 * 11 / 101 / 100));
  EXPECT_EQ(ShareOf(0, 0).value, 0);
}

TEST(QualityStatisticsTest, QuantilesAreNearestRanks) {
  std::vector<double> sorted;
  for (int i = 1; i <= 100; ++i) sorted.push_back(i);

  EXPECT_EQ(QuantileOf(sorted, 0.5).value, 50);
  EXPECT_EQ(QuantileOf(sorted, 0.99).value, 99);
  EXPECT_EQ(QuantileOf(sorted, 1).value, 100);
  EXPECT_EQ(QuantileOf(sorted, 0.5).error, 5);  // Ranks 45 and 55: sqrt(100 / 4) = 5 away.
  EXPECT_EQ(QuantileOf(std::vector<double>{7}, 0.99).value, 7);
}

TEST(QualityStatisticsTest, ASummaryCountsRowsAndKeepsTheLargest) {
  std::vector<RowDivergence> rows(4);
  for (int i = 0; i < 4; ++i) {
    rows[static_cast<size_t>(i)] = {
        .kld = i * 1.0, .delta_p = 0.5, .delta_nll = -1, .reference_nll = 2, .is_same_top = i != 3};
  }

  const QualityNumbers numbers = Summarise(rows);

  EXPECT_EQ(numbers.num_tokens, 4u);
  EXPECT_DOUBLE_EQ(numbers.kld_mean.value, 1.5);
  EXPECT_EQ(numbers.kld_p50.value, 1);
  EXPECT_EQ(numbers.kld_max, 3);
  EXPECT_DOUBLE_EQ(numbers.same_top.value, 0.75);
  EXPECT_DOUBLE_EQ(numbers.rms_delta_p.value, 0.5);
  EXPECT_DOUBLE_EQ(numbers.nll_difference.value, -1);
  EXPECT_EQ(numbers.nll_difference.error, 0);
}

TEST(QualityStatisticsTest, BucketsDoubleAndEndWithTheText) {
  EXPECT_THAT(BucketBorders(100), ElementsAre(0, 100));
  EXPECT_THAT(BucketBorders(1024), ElementsAre(0, 256, 512, 1024));
  EXPECT_THAT(BucketBorders(1500), ElementsAre(0, 256, 512, 1024, 1500));
}

TEST(QualityGateTest, TheGateIsThatOfTheNarrowerType) {
  EXPECT_FALSE(GateFor(KvType::kF32, KvType::kF32));
  EXPECT_EQ(GateFor(KvType::kF16, KvType::kF16)->max_kld_mean, 2e-4);
  EXPECT_EQ(GateFor(KvType::kF32, KvType::kF16)->name, "16-bit");
  EXPECT_EQ(GateFor(KvType::kF32, KvType::kI8)->name, "8-bit");
  EXPECT_EQ(GateFor(KvType::kF8E4M3, KvType::kF16)->min_same_top, 0.985);
  EXPECT_EQ(GateFor(KvType::kI8, KvType::kI4)->name, "K8V4");
  EXPECT_EQ(GateFor(KvType::kI4, KvType::kF32)->name, "4-bit");
  EXPECT_EQ(GateFor(KvType::kI4Head, KvType::kI4Head)->max_kld_mean, 1e-2);
}

TEST(QualityGateTest, CodecsOfEightBitsOrFewerNeedAVerdict) {
  EXPECT_FALSE(NeedsVerdict(KvType::kF32, KvType::kF32));
  EXPECT_FALSE(NeedsVerdict(KvType::kF16, KvType::kBF16));
  EXPECT_TRUE(NeedsVerdict(KvType::kF16, KvType::kI8));
  EXPECT_TRUE(NeedsVerdict(KvType::kF8E5M2, KvType::kF8E5M2));
  EXPECT_TRUE(NeedsVerdict(KvType::kI8, KvType::kI4));
}

TEST(QualityGateTest, BothLimitsMustHold) {
  const QualityGate gate = {.name = "8-bit", .max_kld_mean = 1e-3, .min_same_top = 0.985};
  QualityNumbers numbers;
  numbers.kld_mean.value = 1e-3;
  numbers.same_top.value = 0.985;
  EXPECT_TRUE(PassesGate(gate, numbers));

  numbers.kld_mean.value = 1.01e-3;
  EXPECT_FALSE(PassesGate(gate, numbers));

  numbers.kld_mean.value = 1e-4;
  numbers.same_top.value = 0.984;
  EXPECT_FALSE(PassesGate(gate, numbers));

  numbers.kld_mean.value = std::numeric_limits<double>::infinity();
  numbers.same_top.value = 1;
  EXPECT_FALSE(PassesGate(gate, numbers));
}

}  // namespace
}  // namespace kvern
