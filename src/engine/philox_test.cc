#include "engine/philox.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace kvern {
namespace {

using ::testing::ElementsAre;

// Known answers that the authors publish with Random123 (kat_vectors).
TEST(PhiloxTest, AgreesWithTheKnownAnswers) {
  EXPECT_THAT(Philox4x32({0, 0, 0, 0}, {0, 0}), ElementsAre(0x6627e8d5u, 0xe169c58du, 0xbc57ac4cu, 0x9b00dbd8u));
  EXPECT_THAT(Philox4x32({~0u, ~0u, ~0u, ~0u}, {~0u, ~0u}),
              ElementsAre(0x408f276du, 0x41c83b0eu, 0xa20bc7c6u, 0x6d5451fdu));
  EXPECT_THAT(Philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
              ElementsAre(0xd16cfe09u, 0x94fdccebu, 0x5001e420u, 0x24126ea1u));
}

TEST(PhiloxTest, UniformNumbersLieInTheUnitIntervalAndFillIt) {
  int counts[10] = {};

  for (uint64_t position = 0; position < 100000; ++position) {
    const double u = UniformAt(/*seed=*/7, /*choice_index=*/0, position);
    ASSERT_GE(u, 0.0);
    ASSERT_LT(u, 1.0);
    ++counts[static_cast<int>(u * 10)];
  }

  for (const int count : counts) EXPECT_NEAR(count, 10000, 400);  // Four standard deviations.
}

TEST(PhiloxTest, SeedChoiceAndPositionEachGiveAnotherNumber) {
  const double base = UniformAt(1, 0, 5);

  EXPECT_NE(UniformAt(2, 0, 5), base);
  EXPECT_NE(UniformAt(1ull << 32 | 1, 0, 5), base);
  EXPECT_NE(UniformAt(1, 1, 5), base);
  EXPECT_NE(UniformAt(1, 0, 6), base);
  EXPECT_EQ(UniformAt(1, 0, 5), base);
}

}  // namespace
}  // namespace kvern
