#include "base/byte_reader.h"

#include <gtest/gtest.h>

#include <array>
#include <limits>

namespace kvern {
namespace {

TEST(ByteReaderTest, ReadsLittleEndianIntegersOfEveryWidth) {
  const std::array<uint8_t, 15> bytes = {0x01, 0x02, 0x03, 0x04, 0x05, 0x06, 0x07, 0xff,
                                         0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff};
  ByteReader reader(bytes);

  EXPECT_EQ(reader.Read<uint8_t>(), 0x01u);
  EXPECT_EQ(reader.Read<uint16_t>(), 0x0302u);
  EXPECT_EQ(reader.Read<uint32_t>(), 0x07060504u);
  EXPECT_EQ(reader.Read<int64_t>(), -1);
  EXPECT_EQ(reader.offset(), 15u);
  EXPECT_EQ(reader.remaining(), 0u);
}

TEST(ByteReaderTest, ReadsFloats) {
  const std::array<uint8_t, 4> bytes = {0x00, 0x00, 0xc0, 0x3f};

  EXPECT_EQ(ByteReader(bytes).Read<float>(), 1.5f);
}

TEST(ByteReaderTest, AReadThatDoesNotFitMovesNothing) {
  const std::array<uint8_t, 3> bytes = {7, 8, 9};
  ByteReader reader(bytes);

  EXPECT_EQ(reader.Read<uint32_t>(), std::nullopt);
  EXPECT_EQ(reader.offset(), 0u);
  EXPECT_EQ(reader.Read<uint8_t>(), 7u);
}

TEST(ByteReaderTest, TakeRefusesLengthsBeyondTheEndHoweverLarge) {
  const std::array<uint8_t, 4> bytes = {1, 2, 3, 4};
  ByteReader reader(bytes);

  EXPECT_EQ(reader.Take(5).has_value(), false);
  EXPECT_EQ(reader.Take(std::numeric_limits<uint64_t>::max()).has_value(), false);
  ASSERT_TRUE(reader.Take(4).has_value());
  EXPECT_EQ(reader.Take(0)->size(), 0u);
}

TEST(ByteReaderTest, AStoredValueLoadsBack) {
  std::array<uint8_t, 8> bytes = {};

  StoreLittleEndian<uint64_t>(0x0102030405060708u, bytes.data());

  EXPECT_EQ(bytes[0], 0x08);
  EXPECT_EQ(LoadLittleEndian<uint64_t>(bytes.data()), 0x0102030405060708u);
}

}  // namespace
}  // namespace kvern
