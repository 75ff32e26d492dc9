#include "gguf/gguf_value.h"

#include <gtest/gtest.h>

#include <array>
#include <cstring>

#include "base/byte_reader.h"

namespace kvern {
namespace {

template <typename T>
GgufValue ScalarOf(GgufType type, T scalar) {
  std::array<uint8_t, sizeof(T)> bytes;
  StoreLittleEndian<T>(scalar, bytes.data());
  return GgufValue::Scalar(type, bytes.data());
}

TEST(GgufValueTest, ScalarsPrintAsThemselves) {
  const uint8_t one = 1;

  EXPECT_EQ(ScalarOf<int8_t>(GgufType::kI8, -5).ToString(), "-5");
  EXPECT_EQ(ScalarOf<uint64_t>(GgufType::kU64, ~0ull).ToString(), "18446744073709551615");
  EXPECT_EQ(ScalarOf<float>(GgufType::kF32, 0.1f).ToString(), "0.100000001");
  EXPECT_EQ(ScalarOf<double>(GgufType::kF64, 1e-5).ToString(), "1.0000000000000001e-05");
  EXPECT_EQ(GgufValue::Scalar(GgufType::kBool, &one).ToString(), "true");
  EXPECT_EQ(GgufValue::String("llama").ToString(), "llama");
}

TEST(GgufValueTest, ArraysPrintTheirFirstElementsAndTheirLength) {
  const std::array<uint8_t, 4> bytes = {1, 2, 3, 4};
  const GgufValue numbers = GgufValue::ScalarArray(GgufType::kU8, bytes);

  EXPECT_EQ(numbers.ToString(), "[1, 2, 3, 4]");
  EXPECT_EQ(numbers.ToString(/*max_elements=*/2), "[1, 2, ... 4 in all]");
  EXPECT_EQ(GgufValue::StringArray({"a", "\n"}).ToString(), "['a', '\\x0a']");
  EXPECT_EQ(GgufValue::NestedArray({numbers, numbers}).ToString(1), "[[1, ... 4 in all], ... 2 in all]");
}

TEST(GgufValueTest, TypesAreNamed) {
  EXPECT_EQ(ScalarOf<uint32_t>(GgufType::kU32, 1).TypeName(), "u32");
  EXPECT_EQ(GgufValue::StringArray({"a", "b"}).TypeName(), "array of 2 string");
}

TEST(GgufValueTest, AValueOfOneTypeIsNoneOfTheOthers) {
  const GgufValue text = GgufValue::String("1");
  const GgufValue array = GgufValue::StringArray({"1"});

  EXPECT_FALSE(text.AsUint() || text.AsInt() || text.AsFloat() || text.AsBool());
  EXPECT_FALSE(array.AsUint() || array.AsFloat() || array.AsBool() || array.AsString());
  EXPECT_EQ(text.size(), 0u);
  EXPECT_TRUE(text.strings().empty());
}

TEST(GgufValueTest, QuotedTextIsCutAndHarmless) {
  EXPECT_EQ(QuotedForMessage("ok"), "'ok'");
  EXPECT_EQ(QuotedForMessage("\x7f\xe9"), "'\\x7f\\xe9'");
  EXPECT_EQ(QuotedForMessage(std::string(100, 'x')), "'" + std::string(80, 'x') + "...'");
}

}  // namespace
}  // namespace kvern
