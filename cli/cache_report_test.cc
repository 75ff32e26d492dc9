#include "cli/cache_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace kvern::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(CacheCostTextTest, SaysWhatATokenCostsAndWhatFits) {
  CacheCost cost;
  cost.layer_groups = {{.num_layers = 30, .bytes_per_token = 23040, .block_bytes = 1474560, .num_blocks = 100}};
  cost.bytes_per_token = 23040;
  cost.budget_bytes = 147456000;
  cost.context_tokens = 6400;
  cost.sequence_bytes = 147456000;

  const std::string text = CacheCostText(cost, CacheOptions());

  EXPECT_THAT(text, HasSubstr("23,040 bytes per token"));
  EXPECT_THAT(text, HasSubstr("longest context 6,400 tokens in 147,456,000 bytes"));
  EXPECT_THAT(text, HasSubstr("paged, blocks of 64"));
  EXPECT_THAT(text, Not(HasSubstr("\n")));
}

TEST(CacheCostTextTest, LayerGroupsHaveALineEach) {
  CacheCost cost;
  cost.layer_groups = {{.num_layers = 3, .bytes_per_token = 3072}, {.num_layers = 15, .window_tokens = 512}};
  cost.context_tokens = 1u << 26;

  const std::string text = CacheCostText(cost, CacheOptions());

  EXPECT_THAT(text, HasSubstr("longest context unlimited"));
  EXPECT_THAT(text, HasSubstr("3 layers that see all tokens: 3,072 bytes per token"));
  EXPECT_THAT(text, HasSubstr("15 layers that see 512 tokens"));
}

TEST(CacheStatsTextTest, ShowsEveryState) {
  EngineStats stats;
  stats.cache.total_bytes = 1000;
  stats.cache.idle_bytes = 333;
  stats.cache.peak_used_bytes = 777;

  EXPECT_THAT(CacheStatsText(stats), HasSubstr("333"));
  EXPECT_THAT(CacheStatsText(stats), HasSubstr("777"));
  EXPECT_THAT(CacheStatsText(stats), HasSubstr("1,000"));
}

}  // namespace
}  // namespace kvern::cli
