#include "cli/cache_theory.h"

#include <gtest/gtest.h>

namespace kvern::cli {
namespace {

TEST(CacheTheoryTest, TheLastStepInBothConventions) {
  const StepProducts step = LastStepProducts(10);

  EXPECT_EQ(step.unmasked_uncached, 100u);
  EXPECT_EQ(step.unmasked_cached, 100u - 81u);  // What token 10 adds to the square of 9.
  EXPECT_EQ(step.causal_uncached, 55u);
  EXPECT_EQ(step.causal_cached, 55u - 45u);
}

TEST(CacheTheoryTest, AWholeAnswerIsTheSumOfItsSteps) {
  for (const uint64_t prompt : {1u, 2u, 7u}) {
    uint64_t cached = prompt * (prompt + 1) / 2;
    uint64_t uncached = cached;
    uint64_t tokens = prompt;
    for (uint64_t n = prompt + 1; n <= 20; ++n) {
      cached += LastStepProducts(n).causal_cached;
      uncached += LastStepProducts(n).causal_uncached;
      tokens += n;
    }

    EXPECT_EQ(CachedProducts(20), cached);
    EXPECT_EQ(UncachedProducts(prompt, 20), uncached);
    EXPECT_EQ(UncachedTokens(prompt, 20), tokens);
  }
}

}  // namespace
}  // namespace kvern::cli
