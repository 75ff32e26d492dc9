#include "kvcache/codecs/codec_registry.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace kvern {
namespace {

using ::testing::HasSubstr;

TEST(CodecRegistryTest, EveryCodecIsFoundByItsName) {
  for (const CodecInfo& codec : AllCodecs()) {
    const Result<KvType> parsed = ParseKvType(codec.name);

    ASSERT_TRUE(parsed.ok()) << parsed.status().ToString();
    EXPECT_EQ(*parsed, codec.type);
    EXPECT_EQ(KvTypeName(codec.type), codec.name);
    EXPECT_EQ(&GetCodec(codec.type), &codec);
  }
}

TEST(CodecRegistryTest, UnknownNameIsRefusedWithTheKnownOnes) {
  const Result<KvType> parsed = ParseKvType("q4");

  ASSERT_FALSE(parsed.ok());
  EXPECT_EQ(parsed.status().code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(parsed.status().message(), HasSubstr("'q4'"));
  EXPECT_THAT(parsed.status().message(), HasSubstr("f32, f16"));
}

}  // namespace
}  // namespace kvern
