#include "engine/cache_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace kvern {
namespace {

using ::testing::HasSubstr;

// 23040 bytes per token in f16.
ModelConfig Model(uint32_t context_tokens) {
  ModelConfig config;
  config.num_layers = 30;
  config.num_kv_heads = 3;
  config.head_dim = 64;
  config.context_tokens = context_tokens;
  config.layer_groups = {{.window = 0, .num_layers = 30}};
  return config;
}

constexpr uint64_t kBlockBytes = 64 * 23040;

CachePlan Plan(uint32_t context, uint64_t budget, uint32_t model_context) {
  EngineOptions options;
  options.context_tokens = context;
  options.cache.budget_bytes = budget;
  return PlanCache(options, Model(model_context)).value();
}

TEST(CachePlanTest, DefaultContextIsTheModelsUpTo8192) {
  EXPECT_EQ(Plan(0, 0, 2048).context_tokens, 2048u);
  EXPECT_EQ(Plan(0, 0, 131072).context_tokens, 8192u);
  EXPECT_EQ(Plan(100000, 0, 131072).context_tokens, 100000u);
}

TEST(CachePlanTest, DefaultBudgetHoldsOneSequenceOfTheContext) {
  EXPECT_EQ(Plan(8192, 0, 8192).budget_bytes, 128 * kBlockBytes);
  EXPECT_EQ(Plan(65, 0, 8192).budget_bytes, 2 * kBlockBytes);
}

TEST(CachePlanTest, TheDefaultBudgetHoldsAsManyAsWanted) {
  EngineOptions options;
  options.context_tokens = 65;
  options.cache.budget_contexts = 3;

  EXPECT_EQ(PlanCache(options, Model(8192))->budget_bytes, 6 * kBlockBytes);
  options.cache.budget_bytes = 5 * kBlockBytes;
  EXPECT_EQ(PlanCache(options, Model(8192))->budget_bytes, 5 * kBlockBytes);
}

TEST(CachePlanTest, SmallBudgetShortensTheContext) {
  const CachePlan plan = Plan(1000, 4 * kBlockBytes + 5, 8192);

  EXPECT_EQ(plan.context_tokens, 256u);
  EXPECT_EQ(plan.wanted_context_tokens, 1000u);
  EXPECT_EQ(plan.budget_bytes, 4 * kBlockBytes + 5);
  EXPECT_EQ(Plan(100, 2 * kBlockBytes, 8192).context_tokens, 100u);
}

TEST(CachePlanTest, BudgetBelowOneBlockSaysTheBytes) {
  EngineOptions options;
  options.cache.budget_bytes = 1000;

  const auto plan = PlanCache(options, Model(8192));

  ASSERT_FALSE(plan.ok());
  EXPECT_EQ(plan.status().code(), StatusCode::kResourceExhausted);
  EXPECT_THAT(plan.status().message(), HasSubstr("budget is 1000 bytes"));
  EXPECT_THAT(plan.status().message(), HasSubstr("needs " + std::to_string(kBlockBytes)));
}

TEST(CachePlanTest, ContextBeyondTheModelsIsRefusedWithBothNumbers) {
  EngineOptions options;
  options.context_tokens = 9000;

  const auto plan = PlanCache(options, Model(8192));

  ASSERT_FALSE(plan.ok());
  EXPECT_EQ(plan.status().code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(plan.status().message(), HasSubstr("9000"));
  EXPECT_THAT(plan.status().message(), HasSubstr("8192"));
}

TEST(CachePlanTest, SizesBeyond64BitsAreRefused) {
  EngineOptions options;
  options.context_tokens = ~0u;
  options.cache.k_type = KvType::kF32;

  ModelConfig model = Model(~0u);
  model.num_kv_heads = model.head_dim = 1 << 14;
  model.layer_groups = {{.window = 0, .num_layers = 1 << 14}};

  const auto plan = PlanCache(options, model);

  ASSERT_FALSE(plan.ok());
  EXPECT_EQ(plan.status().code(), StatusCode::kResourceExhausted);
}

// Gemma 3 270M: 3 layers that see all, 15 that see 512 tokens; one KV head of 256.
ModelConfig LocalModel() {
  ModelConfig config = Model(32768);
  config.num_kv_heads = 1;
  config.head_dim = 256;
  config.layer_groups = {{.window = 0, .num_layers = 3}, {.window = 512, .num_layers = 15}};
  return config;
}
constexpr uint64_t kLayerBlockBytes = 64 * 256 * 2 * 2;  // Of one layer.

Status PlanStatus(const EngineOptions& options, const ModelConfig& model) { return PlanCache(options, model).status(); }

TEST(CachePlanTest, LocalLayersNeedTheirWindowAndAStepNotTheContext) {
  EngineOptions options;
  options.context_tokens = 32768;

  const CachePlan plan = PlanCache(options, LocalModel()).value();

  // 512 - 1 + 512 tokens touch up to 17 blocks of 64.
  EXPECT_EQ(plan.spec.groups[0].num_blocks, 512u);
  EXPECT_EQ(plan.spec.groups[1].num_blocks, 17u);
  EXPECT_EQ(plan.budget_bytes, kLayerBlockBytes * (3 * 512 + 15 * 17));
}

TEST(CachePlanTest, ALargerBudgetHoldsMoreSequencesInEachGroup) {
  EngineOptions options;
  options.context_tokens = 32768;
  options.cache.budget_bytes = 5 * kLayerBlockBytes * (3 * 512 + 15 * 17);

  const CachePlan plan = PlanCache(options, LocalModel()).value();

  // The longest sequence once, and the rest for some of 2,048 tokens: 32 and 17 blocks each.
  const uint64_t rest = 4 * (3 * 512 + 15 * 17), num_short = rest / (3 * 32 + 15 * 17);
  EXPECT_NEAR(plan.spec.groups[0].num_blocks, 512 + 32 * num_short, 32);
  EXPECT_NEAR(plan.spec.groups[1].num_blocks, 17 + 17 * num_short, 17);
  EXPECT_LE(plan.spec.BytesOf(plan.spec.PoolBlocks()), options.cache.budget_bytes);
}

TEST(CachePlanTest, ASmallBudgetShortensTheContextOfAllGroups) {
  EngineOptions options;
  options.context_tokens = 32768;
  options.cache.budget_bytes = kLayerBlockBytes * (3 * 100 + 15 * 17);

  const CachePlan plan = PlanCache(options, LocalModel()).value();

  EXPECT_EQ(plan.context_tokens, 6400u);
  EXPECT_EQ(plan.spec.groups[0].num_blocks, 100u);
  EXPECT_EQ(plan.spec.groups[1].num_blocks, 17u);
}

TEST(CachePlanTest, AWindowMakesTheContextEndless) {
  EngineOptions options;
  options.cache.window_tokens = 1024;
  options.cache.num_sinks = 4;

  const CachePlan plan = PlanCache(options, Model(8192)).value();

  EXPECT_GE(plan.context_tokens, 1u << 26);
  EXPECT_EQ(plan.budget_bytes, kBlockBytes * (1 + 25));  // Sinks; 1024 - 1 + 512 tokens anywhere in blocks of 64.
  options.cache.placement = "ring";
  EXPECT_EQ(PlanCache(options, Model(8192))->budget_bytes, kBlockBytes * (1 + 24));
  options.cache.placement = "contiguous";
  EXPECT_EQ(PlanCache(options, Model(8192))->context_tokens, 8192u);
}

TEST(CachePlanTest, SinksAndWindowTogetherMustBeWithinTheTrainedLength) {
  EngineOptions options;
  options.cache.window_tokens = 8190;
  options.cache.num_sinks = 2;
  EXPECT_TRUE(PlanStatus(options, Model(8192)).ok());

  options.cache.num_sinks = 3;
  const Status status = PlanStatus(options, Model(8192));

  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(status.message(), HasSubstr("up to 3 and a window of 8190"));
  EXPECT_THAT(status.message(), HasSubstr("8192"));
}

TEST(CachePlanTest, AUsersWindowNarrowsLocalLayersToo) {
  EngineOptions options;
  options.cache.window_tokens = 256;
  options.cache.num_sinks = 4;
  options.cache.global_tokens = {{100, 200}, {2, 10}};

  const KvCacheSpec spec = PlanCache(options, LocalModel())->spec;

  EXPECT_EQ(spec.groups[0].window, 256u);
  EXPECT_EQ(spec.groups[1].window, 256u);
  ASSERT_EQ(spec.Span(0).pinned.size(), 2u);
  EXPECT_EQ(spec.Span(0).pinned[0].end, 10u);  // Sinks 0-3 and global tokens 2-9 are one range.
  EXPECT_EQ(spec.Span(0).PinnedEnd(), 200u);
  EXPECT_TRUE(spec.Span(1).pinned.empty());
  options.cache.window_tokens = 1024;
  EXPECT_EQ(PlanCache(options, LocalModel())->spec.groups[1].window, 512u);
}

TEST(CachePlanTest, ARingNeedsAWindowInEveryGroup) {
  EngineOptions options;
  options.cache.placement = "ring";

  const Status status = PlanStatus(options, LocalModel());

  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(status.message(), HasSubstr("--window"));
  options.cache.window_tokens = 256;
  EXPECT_TRUE(PlanStatus(options, LocalModel()).ok());
}

}  // namespace
}  // namespace kvern
