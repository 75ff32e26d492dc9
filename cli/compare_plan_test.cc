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

TEST(CompareMeasureTest, PercentilesAreNearestRanks) {
  EXPECT_EQ(PercentileOf({5, 1, 4, 2, 3}, 0.5), 3);
  EXPECT_EQ(PercentileOf({5, 1, 4, 2, 3}, 0.95), 5);
  EXPECT_EQ(PercentileOf({}, 0.5), 0);
}

}  // namespace
}  // namespace kvern::cli
