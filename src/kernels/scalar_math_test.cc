#include "kernels/scalar_math.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>

namespace kvern {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr int kNumSamples = 200'000;

double Relative(double value, double expected) { return std::fabs(value - expected) / std::fabs(expected); }

TEST(ScalarMathTest, SineAndCosineOfSmallAnglesAreWithin1e12) {
  std::mt19937_64 random(1);
  std::uniform_real_distribution<double> angle(-10, 10);
  double worst = 0;

  for (int i = 0; i < kNumSamples; ++i) {
    const double x = angle(random);
    worst = std::fmax(worst, std::fabs(ExactSin(x) - std::sin(x)));
    worst = std::fmax(worst, std::fabs(ExactCos(x) - std::cos(x)));
  }

  EXPECT_LE(worst, 1e-12);
}

TEST(ScalarMathTest, SineAndCosineOfAnglesUpTo1e7AreWithin1e12) {
  std::mt19937_64 random(2);
  std::uniform_real_distribution<double> angle(-1e7, 1e7);
  double worst = 0;

  for (int i = 0; i < kNumSamples; ++i) {
    const double x = i % 2 == 0 ? angle(random) : std::rint(angle(random));
    worst = std::fmax(worst, std::fabs(ExactSin(x) - std::sin(x)));
    worst = std::fmax(worst, std::fabs(ExactCos(x) - std::cos(x)));
  }

  EXPECT_LE(worst, 1e-12);
}

TEST(ScalarMathTest, SineNearMultiplesOfHalfPiKeepsItsDigits) {
  for (int n = 1; n < 2000; ++n) {
    const double x = n * (std::acos(-1.0) / 2);

    EXPECT_NEAR(ExactSin(x), std::sin(x), 1e-15) << n;
    EXPECT_NEAR(ExactCos(x), std::cos(x), 1e-15) << n;
  }
}

TEST(ScalarMathTest, SineAndCosineStayBoundedForHugeAngles) {
  for (const double x : {1e8, 1e15, 1e16, -1e100, 1e300, std::numeric_limits<double>::max()}) {
    EXPECT_LE(std::fabs(ExactSin(x)), 1) << x;
    EXPECT_LE(std::fabs(ExactCos(x)), 1) << x;
  }
}

TEST(ScalarMathTest, SineAndCosineOfInfinityAndNanAreNan) {
  for (const double x : {kInfinity, -kInfinity, kNaN}) {
    EXPECT_TRUE(std::isnan(ExactSin(x)));
    EXPECT_TRUE(std::isnan(ExactCos(x)));
  }
}

TEST(ScalarMathTest, ExponentialIsWithin1e14) {
  std::mt19937_64 random(3);
  std::uniform_real_distribution<double> wide(-708, 709.7), narrow(-2, 2);
  double worst = 0;

  for (int i = 0; i < kNumSamples; ++i) {
    const double x = i % 2 == 0 ? wide(random) : narrow(random);
    worst = std::fmax(worst, Relative(ExactExp(x), std::exp(x)));
  }

  EXPECT_LE(worst, 1e-14);
}

TEST(ScalarMathTest, ExponentialEndsInZeroAndInfinity) {
  EXPECT_EQ(ExactExp(0), 1);
  EXPECT_EQ(ExactExp(-0.0), 1);
  EXPECT_GT(ExactExp(-744), 0);
  EXPECT_EQ(std::bit_cast<uint64_t>(ExactExp(-745.5)), 0u);
  EXPECT_EQ(ExactExp(-kInfinity), 0);
  EXPECT_LT(ExactExp(709.78), kInfinity);
  EXPECT_EQ(ExactExp(709.8), kInfinity);
  EXPECT_EQ(ExactExp(kInfinity), kInfinity);
  EXPECT_TRUE(std::isnan(ExactExp(kNaN)));
}

TEST(ScalarMathTest, LogarithmIsWithin1e14) {
  std::mt19937_64 random(4);
  std::uniform_real_distribution<double> exponent(-700, 700), near_one(0.5, 2);
  double worst = 0;

  for (int i = 0; i < kNumSamples; ++i) {
    const double x = i % 2 == 0 ? std::exp(exponent(random)) : near_one(random);
    const double error = std::fabs(ExactLog(x) - std::log(x));
    worst = std::fmax(worst, error / std::fmax(1, std::fabs(std::log(x))));
  }

  EXPECT_LE(worst, 1e-14);
}

TEST(ScalarMathTest, LogarithmOfSubnormalsAndOfTheEnds) {
  EXPECT_EQ(ExactLog(1), 0);
  EXPECT_NEAR(ExactLog(5e-324), std::log(5e-324), 1e-11);
  EXPECT_NEAR(ExactLog(std::numeric_limits<double>::max()), std::log(std::numeric_limits<double>::max()), 1e-11);
  EXPECT_EQ(ExactLog(0), -kInfinity);
  EXPECT_EQ(ExactLog(-0.0), -kInfinity);
  EXPECT_EQ(ExactLog(kInfinity), kInfinity);
  EXPECT_TRUE(std::isnan(ExactLog(-1)));
  EXPECT_TRUE(std::isnan(ExactLog(kNaN)));
}

TEST(ScalarMathTest, PowersServeAsRotaryFrequencies) {
  for (int i = 0; i < 64; ++i) {
    EXPECT_LE(Relative(ExactPow(1e5, -i / 64.0), std::pow(1e5, -i / 64.0)), 1e-14) << i;
    EXPECT_LE(Relative(ExactPow(1e6, -i / 64.0), std::pow(1e6, -i / 64.0)), 1e-14) << i;
  }
}

// Other machines must give these very bits.
TEST(ScalarMathTest, GoldenBits) {
  const auto bits = [](double x) { return std::bit_cast<uint64_t>(x); };

  EXPECT_EQ(bits(ExactSin(1)), 0x3feaed548f090ceeu);
  EXPECT_EQ(bits(ExactSin(8191.25)), 0xbfecc64c53c03a97u);
  EXPECT_EQ(bits(ExactCos(-123456.789)), 0x3faa74d27c41b22au);
  EXPECT_EQ(bits(ExactExp(-1.5)), 0x3fcc8f87724b5c1du);
  EXPECT_EQ(bits(ExactLog(3)), 0x3ff193ea7aad030au);
  EXPECT_EQ(bits(ExactPow(1e5, -0.34375)), 0x3f939172d544868bu);
}

}  // namespace
}  // namespace kvern
