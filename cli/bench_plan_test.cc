#include "cli/bench_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace kvern::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<std::string> Names(const std::vector<BenchRow>& rows) {
  std::vector<std::string> names;
  for (const BenchRow& row : rows) names.push_back(NameOf(row));
  return names;
}

BenchPlan SmallPlan() {
  BenchPlan plan;
  plan.prefill = {512};
  plan.depth = {0, 4096};
  plan.batch = {1, 8};
  return plan;
}

// 2 layers with 1 KV head of 16 in f16: 128 bytes per token.
ModelInfo SmallModel(uint32_t context_tokens) {
  ModelInfo model;
  model.num_layers = 2;
  model.num_kv_heads = 1;
  model.head_dim = 16;
  model.context_tokens = context_tokens;
  return model;
}

TEST(BenchPlanTest, RowsComeKindByKind) {
  EXPECT_THAT(Names(SmallPlan().Rows()),
              ElementsAre("prefill 512", "decode at 0", "decode at 4096", "1 sequence", "8 sequences",
                          "1 sequence, shared 2048", "8 sequences, shared 2048"));
}

TEST(BenchPlanTest, NoSharedPromptMeansNoSuchRows) {
  BenchPlan plan = SmallPlan();
  plan.shared_prompt = 0;

  EXPECT_THAT(Names(plan.Rows()),
              ElementsAre("prefill 512", "decode at 0", "decode at 4096", "1 sequence", "8 sequences"));
}

TEST(BenchPlanTest, CountsThatMakeNoSenseAreRefused) {
  BenchPlan plan = SmallPlan();
  plan.batch = {4, 0};
  EXPECT_THAT(plan.Validate().message(), HasSubstr("--batch: 0 sequences"));
  plan.batch = {5000};
  EXPECT_THAT(plan.Validate().message(), HasSubstr("5000"));
  plan.batch = {};
  plan.prefill = {0};
  EXPECT_THAT(plan.Validate().message(), HasSubstr("--prefill"));
  plan.prefill = {};
  EXPECT_TRUE(plan.Validate().ok());
}

TEST(BenchPlanTest, ShortPromptsAreComputedForEachSampleLongOnesOnce) {
  const BenchPlan plan = SmallPlan();
  const BenchRow from_zero{.kind = BenchKind::kDecode, .length = 0};
  const BenchRow deep{.kind = BenchKind::kDecode, .length = 4096};
  const BenchRow shared{.kind = BenchKind::kBatch, .shared_prompt = 2048, .num_sequences = 8};

  EXPECT_EQ(plan.SamplesPerRun(from_zero), 1u);
  EXPECT_EQ(plan.ContextTokens(from_zero), 1u + 1 + 64);
  EXPECT_EQ(plan.SamplesPerRun(deep), 5u);
  EXPECT_EQ(plan.ContextTokens(deep), 4096u + 1 + 5 * 64);
  EXPECT_EQ(plan.SamplesPerRun(shared), 5u);
}

TEST(BenchPlanTest, TheCacheHoldsASharedPromptOnce) {
  const BenchPlan plan = SmallPlan();
  const BenchRow own{.kind = BenchKind::kBatch, .length = 16, .num_sequences = 8};
  const BenchRow shared{.kind = BenchKind::kBatch, .shared_prompt = 2000, .num_sequences = 8};

  EXPECT_EQ(plan.CacheTokens(own, 64), 8u * 192);            // 16 + 1 + 64 + 64 tokens.
  EXPECT_EQ(plan.CacheTokens(shared, 64), 1984u + 8 * 448);  // 16 + 1 + 5 * 64 + 64 beside the 31 full blocks.
}

TEST(BenchPlanTest, WhatIsLeftOpenIsSizedForTheLargestRow) {
  const BenchPlan plan = SmallPlan();
  EngineOptions options;
  std::vector<BenchRow> rows = plan.Rows();

  FitRows(plan, SmallModel(/*context_tokens=*/8192), options, rows);

  EXPECT_EQ(rows.size(), 7u);
  EXPECT_EQ(options.context_tokens, 4096u + 1 + 5 * 64);
  EXPECT_EQ(options.max_sequences, 8u);
  EXPECT_EQ(options.cache.budget_bytes, 128u * (2048 + 8 * 448));
}

TEST(BenchPlanTest, RowsThatDoNotFitAreLeftOut) {
  const BenchPlan plan = SmallPlan();
  EngineOptions small_context, small_budget, uncached;
  small_context.context_tokens = 1000;
  small_budget.cache.budget_bytes = 128 * 1600;
  uncached.cache.is_enabled = false;
  std::vector<BenchRow> in_context = plan.Rows(), in_budget = plan.Rows(), without_cache = plan.Rows();

  FitRows(plan, SmallModel(8192), small_context, in_context);
  FitRows(plan, SmallModel(8192), small_budget, in_budget);
  FitRows(plan, SmallModel(8192), uncached, without_cache);

  EXPECT_THAT(Names(in_context), ElementsAre("prefill 512", "decode at 0", "1 sequence", "8 sequences"));
  EXPECT_EQ(small_context.context_tokens, 1000u);
  EXPECT_THAT(Names(in_budget), ElementsAre("prefill 512", "decode at 0", "1 sequence", "8 sequences"));
  EXPECT_EQ(small_budget.cache.budget_bytes, 128u * 1600);
  EXPECT_THAT(Names(without_cache),
              ElementsAre("prefill 512", "decode at 0", "decode at 4096", "1 sequence", "1 sequence, shared 2048"));
}

}  // namespace
}  // namespace kvern::cli
