#include "base/checked_math.h"

#include <gtest/gtest.h>

namespace kvern {
namespace {

TEST(CheckedMathTest, SumsAndProductsThatFitAreGiven) {
  EXPECT_EQ(CheckedAdd(UINT64_MAX - 1, 1), UINT64_MAX);
  EXPECT_EQ(CheckedMul(1ull << 32, (1ull << 32) - 1), ((1ull << 32) - 1) << 32);
  EXPECT_EQ(CheckedMul(UINT64_MAX, 0), 0u);
}

TEST(CheckedMathTest, SumsAndProductsThatWrapAreNot) {
  EXPECT_EQ(CheckedAdd(UINT64_MAX, 1), std::nullopt);
  EXPECT_EQ(CheckedMul(1ull << 32, 1ull << 32), std::nullopt);
}

TEST(CheckedMathTest, RoundingGoesUpToWholeUnits) {
  EXPECT_EQ(RoundUp(0, 16), 0u);
  EXPECT_EQ(RoundUp(1, 16), 16u);
  EXPECT_EQ(RoundUp(16, 16), 16u);
  EXPECT_EQ(CeilDiv(17, 16), 2u);
}

}  // namespace
}  // namespace kvern
