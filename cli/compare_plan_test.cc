#include "cli/compare_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/compare_measure.h"

namespace kvern::cli {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;

std::vector<std::string> Names(const std::vector<CompareCase>& cases) {
  std::vector<std::string> names;
  for (const CompareCase& row : cases) names.push_back(row.name);
  return names;
}

TEST(ComparePlanTest, EveryCodecOfThisBuildHasARow) {
  const std::vector<std::string> names = Names(AllCases({}, {}));

  EXPECT_EQ(names.front(), "no cache");
  for (const CodecPair& codecs : AllCodecPairs()) EXPECT_THAT(names, Contains(NameOf(codecs)));
  for (const char* name :
       {"contiguous f32", "growing", "paged 16", "paged 256", "paged 4096", "ring, window 512", "window 512 + sinks"})
    EXPECT_THAT(names, Contains(name));
}

TEST(ComparePlanTest, OneScalePerTensorStandsBelowInt8AndIsNoCacheToMeasure) {
  const ComparePlan plan;
  const auto chosen = ChooseCases(AllCases(plan, {}), {"int8", "int8 per tensor", "f32"});

  ASSERT_TRUE(chosen.ok());
  ASSERT_THAT(Names(*chosen), ElementsAre("f32", "int8", "int8 per tensor"));
  const CompareCase& row = chosen->back();
  EXPECT_TRUE(row.is_per_tensor_int8);
  EXPECT_EQ(SpeedWork(plan, row), 0u);
  EXPECT_EQ(BatchWork(plan, row), 0u);
  EXPECT_THAT(QualityCandidates(*chosen), SizeIs(1));
}

TEST(ComparePlanTest, RowsAreChosenByNameInTheOrderOfTheTable) {
  const auto chosen = ChooseCases(AllCases({}, {}), {"paged 16", "no cache"});

  ASSERT_TRUE(chosen.ok());
  EXPECT_THAT(Names(*chosen), ElementsAre("no cache", "paged 16"));
  EXPECT_THAT(ChooseCases(AllCases({}, {}), {"f17"}).status().message(),
              AllOf(HasSubstr("'f17'"), HasSubstr("paged 4096")));
}

TEST(ComparePlanTest, QualityIsMeasuredOnceForCachesWithTheSameBits) {
  const auto chosen = ChooseCases(AllCases({}, {}), {"no cache", "f32", "f16", "paged 16", "paged 256"});

  const std::vector<CacheOptions> candidates = QualityCandidates(*chosen);

  ASSERT_THAT(candidates, SizeIs(1));
  EXPECT_EQ(candidates[0].k_type, KvType::kF16);
}

TEST(ComparePlanTest, ALengthBeyondTheContextIsRefusedWithBoth) {
  ModelInfo model;
  model.context_tokens = 2048;
  ComparePlan plan;
  plan.batch_tokens = 1000;
  plan.length = 2048;
  EXPECT_THAT(plan.Validate(model).message(), AllOf(HasSubstr("2089"), HasSubstr("2048")));
  plan.length = 1024;
  EXPECT_TRUE(plan.Validate(model).ok());
  EXPECT_EQ(plan.ContextTokens(model), 2048u);
  plan.length = 8;
  EXPECT_THAT(plan.Validate(model).message(), HasSubstr("--length"));
}

TEST(CompareMeasureTest, OneScalePerTensorIsCountedAsEightBitsAndTheScalesOfAllTensors) {
  CompareRun run;
  run.model.num_layers = 30;
  run.model.num_kv_heads = 3;
  run.model.head_dim = 64;
  run.plan.length = 2048;
  CompareResult result;
  result.row.is_per_tensor_int8 = true;

  ASSERT_TRUE(PlanMemory(run, result).ok());

  EXPECT_EQ(result.bytes_per_token, 2u * 30 * 3 * 64);
  EXPECT_EQ(result.peak_bytes, 2088u * 11520 + 2 * 30 * 8);
  run.plan.quality_tokens = 0;
  EXPECT_THAT(PlanMemory(run, result).message(), HasSubstr("--quality-tokens is 0"));
}

TEST(CompareMeasureTest, PercentilesAreNearestRanks) {
  EXPECT_EQ(PercentileOf({5, 1, 4, 2, 3}, 0.5), 3);
  EXPECT_EQ(PercentileOf({5, 1, 4, 2, 3}, 0.95), 5);
  EXPECT_EQ(PercentileOf({}, 0.5), 0);
}

}  // namespace
}  // namespace kvern::cli
