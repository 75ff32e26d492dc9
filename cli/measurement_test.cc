#include "cli/measurement.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace kvern::cli {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::Ge;
using ::testing::Lt;

TEST(BenchTokensTest, AreRepeatableAndInsideTheVocabulary) {
  const auto tokens = BenchTokens(1000, 300, /*series=*/4);

  EXPECT_EQ(tokens, BenchTokens(1000, 300, 4));
  EXPECT_THAT(tokens, Each(AllOf(Ge(0), Lt(300))));
  EXPECT_TRUE(BenchTokens(5, 0, 0).empty());
}

TEST(BenchTokensTest, SeriesBeginDifferently) {
  EXPECT_NE(BenchTokens(1, 49152, 0), BenchTokens(1, 49152, 1));
  EXPECT_NE(BenchTokens(1, 49152, 1), BenchTokens(1, 49152, 2));
}

TEST(SpreadOfTest, TakesTheMiddle) {
  EXPECT_EQ(SpreadOf({}).median, 0);
  EXPECT_EQ(SpreadOf({3, 1, 2}).median, 2);
  EXPECT_EQ(SpreadOf({4, 1, 2, 3}).median, 2.5);
  EXPECT_EQ(SpreadOf({3, 1, 2}).min, 1);
  EXPECT_EQ(SpreadOf({3, 1, 2}).max, 3);
}

TEST(WeightsPerPromptTokenTest, CountsTheLayersAlone) {
  ModelInfo smollm2;
  smollm2.num_layers = 30;
  smollm2.width = 576;
  smollm2.ffn_width = 1536;
  smollm2.num_heads = 9;
  smollm2.num_kv_heads = 3;
  smollm2.head_dim = 64;

  EXPECT_EQ(WeightsPerPromptToken(smollm2), 106'168'320u);
}

}  // namespace
}  // namespace kvern::cli
