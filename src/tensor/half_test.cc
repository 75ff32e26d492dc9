#include "tensor/half.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace kvern {
namespace {

uint32_t Bits(float value) { return std::bit_cast<uint32_t>(value); }

// The value of a finite half, from its definition.
double ExactValue(uint16_t half) {
  const int exponent = (half >> 10) & 0x1f;
  const int mantissa = half & 0x3ff;
  const double magnitude = exponent == 0 ? std::ldexp(mantissa, -24) : std::ldexp(1024 + mantissa, exponent - 25);
  return (half & 0x8000) != 0 ? -magnitude : magnitude;
}

bool IsFiniteHalf(uint16_t half) { return (half & 0x7c00) != 0x7c00; }

TEST(HalfTest, EveryFiniteF16DecodesExactly) {
  for (uint32_t half = 0; half <= 0xffff; ++half) {
    if (!IsFiniteHalf(static_cast<uint16_t>(half))) continue;
    const float decoded = F16ToF32(static_cast<uint16_t>(half));

    ASSERT_EQ(static_cast<double>(decoded), ExactValue(static_cast<uint16_t>(half))) << half;
    ASSERT_EQ(std::signbit(decoded), (half & 0x8000) != 0) << half;
  }
}

TEST(HalfTest, InfinitiesDecodeToInfinitiesAndNaNsToQuietOnesWithTheirPayload) {
  EXPECT_EQ(Bits(F16ToF32(0x7c00)), 0x7f800000u);
  EXPECT_EQ(Bits(F16ToF32(0xfc00)), 0xff800000u);
  EXPECT_EQ(Bits(F16ToF32(0x7c01)), 0x7fc02000u);
  EXPECT_EQ(Bits(F16ToF32(0xfe05)), 0xffc0a000u);
}

TEST(HalfTest, EveryFiniteF16EncodesBackToItself) {
  for (uint32_t half = 0; half <= 0xffff; ++half) {
    if (!IsFiniteHalf(static_cast<uint16_t>(half))) continue;
    ASSERT_EQ(F32ToF16(F16ToF32(static_cast<uint16_t>(half))), half);
  }
}

TEST(HalfTest, BetweenTwoF16TheNearerOneWinsAndATieGoesToTheEvenOne) {
  for (uint16_t low = 0; low < 0x7bff; ++low) {
    const auto high = static_cast<uint16_t>(low + 1);
    const float middle = (F16ToF32(low) + F16ToF32(high)) / 2;  // Exact: one more bit than a half has.
    const uint16_t even = (low & 1) == 0 ? low : high;

    ASSERT_EQ(F32ToF16(middle), even) << low;
    ASSERT_EQ(F32ToF16(std::nextafter(middle, 0.0f)), low) << low;
    ASSERT_EQ(F32ToF16(std::nextafter(middle, 1e9f)), high) << low;
    ASSERT_EQ(F32ToF16(-middle), even | 0x8000) << low;
  }
}

TEST(HalfTest, F16OverflowsToInfinityFromTheMiddleAboveTheLargestValue) {
  EXPECT_EQ(F32ToF16(std::nextafter(65520.0f, 0.0f)), 0x7bff);
  EXPECT_EQ(F32ToF16(65520.0f), 0x7c00);
  EXPECT_EQ(F32ToF16(-1e30f), 0xfc00);
  EXPECT_EQ(F32ToF16(std::numeric_limits<float>::infinity()), 0x7c00);
}

TEST(HalfTest, TinyValuesBecomeSignedZeros) {
  EXPECT_EQ(F32ToF16(0x1p-26f), 0x0000);
  EXPECT_EQ(F32ToF16(-0x1p-26f), 0x8000);
  EXPECT_EQ(F32ToF16(0x1p-149f), 0x0000);
}

TEST(HalfTest, NaNsEncodeToQuietF16NaNs) {
  EXPECT_EQ(F32ToF16(std::bit_cast<float>(0x7f800001u)), 0x7e00);
  EXPECT_EQ(F32ToF16(std::bit_cast<float>(0xffc0a000u)), 0xfe05);
}

TEST(HalfTest, EveryBf16EncodesBackToItselfButQuiet) {
  for (uint32_t bf16 = 0; bf16 <= 0xffff; ++bf16) {
    const float decoded = std::bit_cast<float>(bf16 << 16);
    ASSERT_EQ(Bits(Bf16ToF32(static_cast<uint16_t>(bf16))), bf16 << 16);
    ASSERT_EQ(F32ToBf16(decoded), std::isnan(decoded) ? bf16 | 0x40u : bf16);
  }
}

TEST(HalfTest, Bf16RoundsToNearestEven) {
  EXPECT_EQ(F32ToBf16(std::bit_cast<float>(0x3f808000u)), 0x3f80);
  EXPECT_EQ(F32ToBf16(std::bit_cast<float>(0x3f808001u)), 0x3f81);
  EXPECT_EQ(F32ToBf16(std::bit_cast<float>(0x3f818000u)), 0x3f82);
  EXPECT_EQ(F32ToBf16(std::bit_cast<float>(0x7f7fffffu)), 0x7f80);
}

}  // namespace
}  // namespace kvern
