#include "engine/prefill_budget.h"

#include <gtest/gtest.h>

namespace kvern {
namespace {

// Steps of a machine that takes `us_per_row` for a prompt token and `us_decode` for all streams together.
void RunSteps(PrefillBudget& budget, int num_steps, uint64_t us_per_row, uint64_t us_decode) {
  for (int i = 0; i < num_steps; ++i) {
    const uint64_t rows = budget.rows_beside_streams();
    budget.OnStep(rows, /*has_streams=*/true, rows * us_per_row + us_decode);
  }
}

TEST(PrefillBudgetTest, FillsTheStepUpToTheBudget) {
  PrefillBudget budget(50'000, 512);

  RunSteps(budget, 30, /*us_per_row=*/200, /*us_decode=*/10'000);

  EXPECT_LE(budget.rows_beside_streams(), 200u);
  EXPECT_GE(budget.rows_beside_streams(), 150u);
}

TEST(PrefillBudgetTest, AnOverrunIsCorrectedInOneStep) {
  PrefillBudget budget(50'000, 4096);
  RunSteps(budget, 30, 20, 0);
  const uint64_t before = budget.rows_beside_streams();

  RunSteps(budget, 1, 200, 0);

  EXPECT_GT(before, 2000u);
  EXPECT_LE(budget.rows_beside_streams(), 250u);
}

TEST(PrefillBudgetTest, APromptAlwaysGoesOn) {
  PrefillBudget budget(50'000, 512);

  RunSteps(budget, 10, /*us_per_row=*/10, /*us_decode=*/1'000'000);

  EXPECT_EQ(budget.rows_beside_streams(), 16u);
}

TEST(PrefillBudgetTest, AFewLastTokensOfAPromptSayNothing) {
  PrefillBudget budget(50'000, 512);
  RunSteps(budget, 30, 100, 0);
  const uint64_t before = budget.rows_beside_streams();

  budget.OnStep(3, /*has_streams=*/true, 40'000);

  EXPECT_EQ(budget.rows_beside_streams(), before);
}

TEST(PrefillBudgetTest, WithoutABudgetNothingIsCut) {
  PrefillBudget budget(0, 512);

  RunSteps(budget, 10, 10'000, 0);

  EXPECT_EQ(budget.rows_beside_streams(), 512u);
}

}  // namespace
}  // namespace kvern
