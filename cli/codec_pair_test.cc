#include "cli/codec_pair.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace kvern::cli {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;

TEST(CodecPairTest, EveryPairOfThisBuildIsTheInverseOfItsName) {
  for (const CodecPair& pair : AllCodecPairs()) {
    const auto parsed = ParseCodecPair(NameOf(pair));
    ASSERT_TRUE(parsed.ok()) << NameOf(pair);
    EXPECT_EQ(*parsed, pair);
  }
  EXPECT_THAT(AllCodecPairs(), Contains(CodecPair{KvType::kF32, KvType::kF32}));
}

TEST(CodecPairTest, KeysStandBeforeValues) {
  const auto pair = ParseCodecPair("f32/f16");

  ASSERT_TRUE(pair.ok());
  EXPECT_EQ(pair->k, KvType::kF32);
  EXPECT_EQ(pair->v, KvType::kF16);
  EXPECT_EQ(NameOf(*pair), "f32/f16");
}

TEST(CodecPairTest, Int8KeysWithInt4ValuesHaveANameOfTheirOwn) {
  EXPECT_EQ(NameOf({KvType::kI8, KvType::kI4}), "k8v4");
  EXPECT_EQ(ParseCodecPair("int8/int4").value(), ParseCodecPair("k8v4").value());
  EXPECT_THAT(AllCodecPairs(), Contains(CodecPair{KvType::kI8, KvType::kI4}));
}

TEST(CodecPairTest, UnknownNamesAreSaidWithTheKnownOnes) {
  EXPECT_THAT(ParseCodecPair("f16/f7").status().message(), AllOf(HasSubstr("'f7'"), HasSubstr("f16")));
  EXPECT_THAT(ParseCodecPair("").status().message(), HasSubstr("''"));
  EXPECT_FALSE(ParseCodecPair("f16/").ok());
}

}  // namespace
}  // namespace kvern::cli
