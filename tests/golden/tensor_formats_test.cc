// Decoded values and encoded bytes of every tensor format against digests made with the `gguf` Python package
// (scripts/make_format_golden.py, which makes the same inputs: keep the two alike).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "base/byte_reader.h"
#include "tensor/quant_formats.h"

namespace kvern {
namespace {

constexpr size_t kNumValues = 16384;
constexpr char kGoldenPath[] = "tests/golden/tensor_formats.txt";

struct Golden {
  std::string decoded, encoded;
};

std::map<std::string, Golden> ReadGolden() {
  std::map<std::string, Golden> golden;
  std::ifstream file(kGoldenPath);
  std::string line;
  while (std::getline(file, line)) {
    std::istringstream fields(line);
    std::string type, decoded, encoded;
    if (line[0] != '#' && fields >> type >> decoded >> encoded) golden[type] = {decoded, encoded};
  }
  return golden;
}

class XorShift {
 public:
  explicit XorShift(uint64_t seed) : state_(seed) {}
  uint64_t Next() {
    state_ ^= state_ << 13;
    state_ ^= state_ >> 7;
    state_ ^= state_ << 17;
    return state_;
  }

 private:
  uint64_t state_;
};

uint64_t SeedOf(DType dtype, uint64_t purpose) {
  return 0x9e3779b97f4a7c15u * (static_cast<uint64_t>(dtype) * 2 + purpose + 1);
}

std::string Fnv1a(std::span<const uint8_t> bytes) {
  uint64_t digest = 0xcbf29ce484222325u;
  for (const uint8_t byte : bytes) digest = (digest ^ byte) * 0x100000001b3u;
  char text[20];
  std::snprintf(text, sizeof(text), "%016llx", static_cast<unsigned long long>(digest));
  return text;
}

std::vector<size_t> F16Fields(DType dtype) {
  if (dtype == DType::kF32 || dtype == DType::kBF16) return {};
  if (dtype == DType::kQ6_K) return {208};
  if (dtype == DType::kQ4_1 || dtype == DType::kQ5_1 || dtype == DType::kQ4_K || dtype == DType::kQ5_K) return {0, 2};
  return {0};
}

std::vector<uint8_t> RandomBlocks(DType dtype) {
  const size_t block_bytes = GetDTypeInfo(dtype).block_bytes;
  std::vector<uint8_t> bytes(RowBytes(dtype, kNumValues));
  XorShift random(SeedOf(dtype, 0));
  for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(random.Next() >> 56);
  for (size_t at = 0; at < bytes.size(); at += block_bytes) {
    for (const size_t field : F16Fields(dtype)) {
      if ((bytes[at + field + 1] & 0x7c) == 0x7c) bytes[at + field + 1] &= 0xbf;
    }
    if (dtype == DType::kF32 || dtype == DType::kBF16) {
      const size_t high = at + block_bytes - 1;
      if ((bytes[high] & 0x7f) == 0x7f && (bytes[high - 1] & 0x80) != 0) bytes[high] &= 0xbf;
    }
  }
  return bytes;
}

std::vector<float> RandomValues(DType dtype) {
  XorShift random(SeedOf(dtype, 1));
  std::vector<float> values(kNumValues);
  for (size_t i = 0; i < kNumValues; ++i) {
    const int64_t integer = static_cast<int64_t>(random.Next() >> 40) - (1 << 23);
    const int group = static_cast<int>(i / 32);
    values[i] = group == 0 ? 0.0f : std::ldexp(static_cast<float>(integer), group % 12 - 28);
  }
  return values;
}

class TensorFormatsGoldenTest : public ::testing::TestWithParam<DTypeInfo> {};

TEST_P(TensorFormatsGoldenTest, DecodedValuesAreThoseOfTheGgufPackage) {
  const auto golden = ReadGolden();
  const auto entry = golden.find(std::string(GetParam().name));
  ASSERT_NE(entry, golden.end()) << kGoldenPath << " has no line for this type";
  std::vector<float> decoded(kNumValues);

  DecodeRow(GetParam().dtype, RandomBlocks(GetParam().dtype), decoded);

  std::vector<uint8_t> bytes(kNumValues * sizeof(float));
  for (size_t i = 0; i < kNumValues; ++i) StoreLittleEndian<float>(decoded[i], bytes.data() + i * sizeof(float));
  EXPECT_EQ(Fnv1a(bytes), entry->second.decoded);
}

// The package has no encoder for the K types.
class TensorEncodersGoldenTest : public ::testing::TestWithParam<DTypeInfo> {};

TEST_P(TensorEncodersGoldenTest, EncodedBytesAreThoseOfTheGgufPackage) {
  const auto golden = ReadGolden();
  const auto entry = golden.find(std::string(GetParam().name));
  ASSERT_NE(entry, golden.end()) << kGoldenPath << " has no line for this type";
  std::vector<uint8_t> encoded(RowBytes(GetParam().dtype, kNumValues));

  EncodeRow(GetParam().dtype, RandomValues(GetParam().dtype), encoded);

  EXPECT_EQ(Fnv1a(encoded), entry->second.encoded);
}

std::vector<DTypeInfo> TypesWithEncodedDigests() {
  std::vector<DTypeInfo> types;
  for (const DTypeInfo& info : AllDTypes()) {
    if (info.dtype != DType::kQ4_K && info.dtype != DType::kQ5_K && info.dtype != DType::kQ6_K) types.push_back(info);
  }
  return types;
}

const auto kTypeName = [](const ::testing::TestParamInfo<DTypeInfo>& type) { return std::string(type.param.name); };

INSTANTIATE_TEST_SUITE_P(AllTypes, TensorFormatsGoldenTest, ::testing::ValuesIn(AllDTypes().begin(), AllDTypes().end()),
                         kTypeName);
INSTANTIATE_TEST_SUITE_P(TypesWithEncoders, TensorEncodersGoldenTest, ::testing::ValuesIn(TypesWithEncodedDigests()),
                         kTypeName);

}  // namespace
}  // namespace kvern
