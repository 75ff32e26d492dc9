#include "tensor/quant_formats.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "base/byte_reader.h"
#include "tensor/half.h"

namespace kvern {
namespace {

using ::testing::Each;
using ::testing::Truly;

std::vector<uint8_t> Encode(DType dtype, const std::vector<float>& values) {
  std::vector<uint8_t> bytes(RowBytes(dtype, values.size()));
  EncodeRow(dtype, values, bytes);
  return bytes;
}

std::vector<float> Decode(DType dtype, const std::vector<uint8_t>& bytes) {
  const DTypeInfo& info = GetDTypeInfo(dtype);
  std::vector<float> values(bytes.size() / info.block_bytes * info.block_elements);
  DecodeRow(dtype, bytes, values);
  return values;
}

std::vector<float> NormalValues(size_t count, float mean = 0.0f) {
  std::mt19937 random(7);
  std::normal_distribution<float> normal(mean, 1.0f);
  std::vector<float> values(count);
  for (float& value : values) value = normal(random);
  return values;
}

// Root of the mean squared error over the root of the mean square.
double RelativeError(const std::vector<float>& values, const std::vector<float>& decoded) {
  double error = 0, square = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    error += (values[i] - decoded[i]) * (values[i] - decoded[i]);
    square += values[i] * values[i];
  }
  return std::sqrt(error / square);
}

// What the width of the format allows for normally distributed values, with a little room.
double AllowedError(DType dtype) {
  switch (dtype) {
    case DType::kF32: return 0.0;
    case DType::kF16: return 3e-4;
    case DType::kBF16: return 2.5e-3;
    case DType::kQ8_0: return 6e-3;
    case DType::kQ6_K: return 0.022;
    case DType::kQ5_0:
    case DType::kQ5_1:
    case DType::kQ5_K: return 0.045;
    case DType::kQ4_0:
    case DType::kQ4_1:
    case DType::kQ4_K: return 0.09;
  }
  return 0.0;
}

class QuantFormatsTest : public ::testing::TestWithParam<DTypeInfo> {
 protected:
  DType dtype() const { return GetParam().dtype; }
  size_t block_elements() const { return GetParam().block_elements; }
  size_t block_bytes() const { return GetParam().block_bytes; }

  // Where a block holds its f16 scale and minimum.
  std::vector<size_t> F16Fields() const {
    if (dtype() == DType::kF32 || dtype() == DType::kBF16) return {};
    if (dtype() == DType::kQ6_K) return {208};
    if (dtype() == DType::kQ4_1 || dtype() == DType::kQ5_1 || dtype() == DType::kQ4_K || dtype() == DType::kQ5_K) {
      return {0, 2};
    }
    return {0};
  }

  // Every stored float becomes a large one, a single bit away from not being finite.
  void FillExponentsButOneBit(uint8_t* block) const {
    if (dtype() == DType::kF32) StoreLittleEndian<uint32_t>(0x7f000001u, block);
    if (dtype() == DType::kBF16) StoreLittleEndian<uint16_t>(0x7f01, block);
    for (const size_t field : F16Fields()) StoreLittleEndian<uint16_t>(0x7801, block + field);
  }
};

TEST_P(QuantFormatsTest, ARoundTripStaysCloseToTheValues) {
  const std::vector<float> values = NormalValues(256 * 32);

  const double error = RelativeError(values, Decode(dtype(), Encode(dtype(), values)));

  EXPECT_LE(error, AllowedError(dtype()));
}

TEST_P(QuantFormatsTest, ARoundTripOfValuesFarFromZeroStaysClose) {
  const std::vector<float> values = NormalValues(256 * 4, /*mean=*/10.0f);

  const double error = RelativeError(values, Decode(dtype(), Encode(dtype(), values)));

  EXPECT_LE(error, AllowedError(dtype()));
}

TEST_P(QuantFormatsTest, ZerosStayZeros) {
  const std::vector<float> zeros(256);

  EXPECT_THAT(Decode(dtype(), Encode(dtype(), zeros)), Each(0.0f));
}

TEST_P(QuantFormatsTest, OneNegativeOutlierIsKept) {
  std::vector<float> values(256, 0.0f);
  values[37] = -8.0f;

  const std::vector<float> decoded = Decode(dtype(), Encode(dtype(), values));

  EXPECT_NEAR(decoded[37], -8.0f, 0.02f);
  EXPECT_EQ(decoded[200], 0.0f);
}

TEST_P(QuantFormatsTest, ValuesTooSmallForAScaleDecodeToFiniteOnes) {
  const std::vector<float> values(256, std::numeric_limits<float>::denorm_min());

  const std::vector<uint8_t> encoded = Encode(dtype(), values);

  EXPECT_TRUE(ScalesAreFinite(dtype(), encoded));
  EXPECT_THAT(Decode(dtype(), encoded), Each(Truly([](float v) { return std::fabs(v) < 1e-6f; })));
}

TEST_P(QuantFormatsTest, AnEmptyRowIsAllowed) {
  EXPECT_TRUE(Decode(dtype(), Encode(dtype(), {})).empty());
  EXPECT_TRUE(ScalesAreFinite(dtype(), {}));
}

TEST_P(QuantFormatsTest, BlocksDecodeIndependently) {
  const std::vector<float> values = NormalValues(256 * 3);
  const std::vector<uint8_t> bytes = Encode(dtype(), values);
  const std::vector<float> whole = Decode(dtype(), bytes);

  for (size_t b = 0; b < values.size() / block_elements(); ++b) {
    const std::vector<uint8_t> block(bytes.begin() + static_cast<std::ptrdiff_t>(b * block_bytes()),
                                     bytes.begin() + static_cast<std::ptrdiff_t>((b + 1) * block_bytes()));
    const std::vector<float> alone = Decode(dtype(), block);
    ASSERT_TRUE(
        std::equal(alone.begin(), alone.end(), whole.begin() + static_cast<std::ptrdiff_t>(b * block_elements())))
        << b;
  }
}

TEST_P(QuantFormatsTest, ScalesAreFiniteExactlyWhenEveryDecodedValueIs) {
  std::vector<uint8_t> bytes = Encode(dtype(), NormalValues(512));
  bytes.resize(2 * block_bytes());
  for (size_t block = 0; block < 2; ++block) FillExponentsButOneBit(bytes.data() + block * block_bytes());
  int num_not_finite = 0;

  for (size_t bit = 0; bit < bytes.size() * 8; ++bit) {
    bytes[bit / 8] ^= static_cast<uint8_t>(1u << (bit % 8));
    const std::vector<float> decoded = Decode(dtype(), bytes);
    const bool all_finite = std::all_of(decoded.begin(), decoded.end(), [](float v) { return std::isfinite(v); });
    ASSERT_EQ(ScalesAreFinite(dtype(), bytes), all_finite) << "bit " << bit;
    num_not_finite += all_finite ? 0 : 1;
    bytes[bit / 8] ^= static_cast<uint8_t>(1u << (bit % 8));
  }

  const size_t num_floats = 2 * std::max<size_t>(1, F16Fields().size());
  EXPECT_EQ(num_not_finite, static_cast<int>(num_floats));
}

TEST_P(QuantFormatsTest, TheLastBlockIsCheckedToo) {
  std::vector<uint8_t> bytes = Encode(dtype(), NormalValues(512));
  ASSERT_TRUE(ScalesAreFinite(dtype(), bytes));
  uint8_t* last_block = bytes.data() + bytes.size() - block_bytes();

  if (dtype() == DType::kF32) {
    StoreLittleEndian<float>(std::numeric_limits<float>::quiet_NaN(), last_block);
  } else if (dtype() == DType::kBF16) {
    StoreLittleEndian<uint16_t>(0x7f80, last_block);
  } else {
    StoreLittleEndian<uint16_t>(0x7e00, last_block + F16Fields().back());
  }

  EXPECT_FALSE(ScalesAreFinite(dtype(), bytes));
}

INSTANTIATE_TEST_SUITE_P(AllTypes, QuantFormatsTest, ::testing::ValuesIn(AllDTypes().begin(), AllDTypes().end()),
                         [](const auto& type) { return std::string(type.param.name); });

TEST(QuantFormatsLayoutTest, Q4_0KeepsTheFirstHalfInTheLowNibbles) {
  std::vector<uint8_t> block(18, 0);
  StoreLittleEndian<uint16_t>(F32ToF16(0.5f), block.data());
  block[2] = 0xf3;

  const std::vector<float> values = Decode(DType::kQ4_0, block);

  EXPECT_EQ(values[0], 0.5f * (3 - 8));
  EXPECT_EQ(values[16], 0.5f * (15 - 8));
}

TEST(QuantFormatsLayoutTest, Q5_1TakesTheFifthBitOfEachCodeFromTheMask) {
  std::vector<uint8_t> block(24, 0);
  StoreLittleEndian<uint16_t>(F32ToF16(1.0f), block.data());
  StoreLittleEndian<uint16_t>(F32ToF16(-2.0f), block.data() + 2);
  StoreLittleEndian<uint32_t>(1u << 17, block.data() + 4);
  block[8 + 1] = 0x42;

  const std::vector<float> values = Decode(DType::kQ5_1, block);

  EXPECT_EQ(values[1], 2.0f - 2.0f);
  EXPECT_EQ(values[17], (4.0f + 16.0f) - 2.0f);
}

}  // namespace
}  // namespace kvern
