#include "engine/cache_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace kvern {
namespace {

using ::testing::HasSubstr;

constexpr KvShape kShape{.num_layers = 30, .num_kv_heads = 3, .head_dim = 64};  // 23040 bytes per token in f16.
constexpr uint64_t kBlockBytes = 64 * 23040;

CachePlan Plan(uint32_t context, uint64_t budget, uint32_t model_context) {
  EngineOptions options;
  options.context_tokens = context;
  options.cache.budget_bytes = budget;
  return PlanCache(options, kShape, model_context).value();
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

  const auto plan = PlanCache(options, kShape, 8192);

  ASSERT_FALSE(plan.ok());
  EXPECT_EQ(plan.status().code(), StatusCode::kResourceExhausted);
  EXPECT_THAT(plan.status().message(), HasSubstr("budget is 1000 bytes"));
  EXPECT_THAT(plan.status().message(), HasSubstr("needs " + std::to_string(kBlockBytes)));
}

TEST(CachePlanTest, ContextBeyondTheModelsIsRefusedWithBothNumbers) {
  EngineOptions options;
  options.context_tokens = 9000;

  const auto plan = PlanCache(options, kShape, 8192);

  ASSERT_FALSE(plan.ok());
  EXPECT_EQ(plan.status().code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(plan.status().message(), HasSubstr("9000"));
  EXPECT_THAT(plan.status().message(), HasSubstr("8192"));
}

TEST(CachePlanTest, SizesBeyond64BitsAreRefused) {
  EngineOptions options;
  options.context_tokens = ~0u;
  options.cache.k_type = KvType::kF32;

  const auto plan = PlanCache(options, {1 << 14, 1 << 14, 1 << 14}, ~0u);

  ASSERT_FALSE(plan.ok());
  EXPECT_EQ(plan.status().code(), StatusCode::kResourceExhausted);
}

}  // namespace
}  // namespace kvern
