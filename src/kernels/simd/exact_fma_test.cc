#include "kernels/simd/exact_fma.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "kernels/testing/random_weights.h"

namespace kvern {
namespace {

void ExpectSameAsLibrary(float a, float b, float c) {
  const float expected = std::fma(a, b, c), found = ExactFma(a, b, c);
  if (std::isnan(expected)) {
    EXPECT_TRUE(std::isnan(found)) << a << " " << b << " " << c;
  } else {
    ASSERT_EQ(std::bit_cast<uint32_t>(found), std::bit_cast<uint32_t>(expected)) << a << " " << b << " " << c;
  }
}

TEST(ExactFmaTest, RoundsOnceForAnyBits) {
  TestRandom random(1);
  for (int i = 0; i < 100000; ++i) {
    const float a = std::bit_cast<float>(random.Next()), b = std::bit_cast<float>(random.Next());
    const float c = std::bit_cast<float>(random.Next());
    ExpectSameAsLibrary(a, b, c);
  }
}

TEST(ExactFmaTest, RoundsOnceWhereTheSumCancelsOrIsSubnormal) {
  TestRandom random(2);
  for (int i = 0; i < 100000; ++i) {
    const float scale = std::ldexp(1.0f, -static_cast<int>(random.Below(70)));
    const float a = random.Symmetric() * scale, b = random.Symmetric() * scale;
    const float product = a * b;
    ExpectSameAsLibrary(a, b, -product);
    ExpectSameAsLibrary(a, b, -product * 1.0000001f);
    ExpectSameAsLibrary(a, b, random.Symmetric() * scale * scale);
  }
}

TEST(ExactFmaTest, KeepsZerosInfinitiesAndNan) {
  const float infinity = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  const float values[] = {0.0f, -0.0f, 1.0f, -1.0f, 1e-45f, -1e-45f, 3e38f, -3e38f, infinity, -infinity, nan};
  for (const float a : values) {
    for (const float b : values) {
      for (const float c : values) ExpectSameAsLibrary(a, b, c);
    }
  }
}

}  // namespace
}  // namespace kvern
