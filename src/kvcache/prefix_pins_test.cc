#include "kvcache/prefix_pins.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/support/prefix_world.h"

namespace kvern {
namespace {

using namespace prefix_world;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(PrefixPinsTest, APinnedPrefixDoesNotLeaveBeforeItsTime) {
  World world({.num_blocks = 8});
  PrefixPins pins(*world.cache, 1 << 20);
  RunOnce(world, Range(0, 40));
  KeyChain chain = world.prefix->NewChain("");

  ASSERT_TRUE(pins.Pin(world.prefix->Match(Range(0, 40), 40, chain), /*expires_us=*/1000).ok());
  EXPECT_FALSE(world.prefix->MakeRoom(0, 8));
  EXPECT_EQ(NumCached(world, Range(0, 40)), 40u);
  EXPECT_THAT(pins.num_blocks(), ElementsAre(3u, 0u));
  pins.Expire(999);
  EXPECT_EQ(pins.num_pins(), 1u);
  pins.Expire(1000);

  EXPECT_EQ(pins.num_bytes(), 0u);
  EXPECT_EQ(world.cache->Stats().idle_blocks, 3u);
  EXPECT_TRUE(world.prefix->MakeRoom(0, 8));
}

TEST(PrefixPinsTest, BlocksOfSeveralPinsCountOnceAndTheLimitHolds) {
  World world;
  const uint64_t block_bytes = world.cache->pool(0).layout().block_bytes();
  PrefixPins pins(*world.cache, 4 * block_bytes);
  RunOnce(world, Range(0, 32) + Range(100, 16));
  RunOnce(world, Range(0, 32) + Range(200, 32));
  const auto pin = [&](const Tokens& tokens, uint64_t expires_us) {
    KeyChain chain = world.prefix->NewChain("");
    return pins.Pin(world.prefix->Match(tokens, tokens.size(), chain), expires_us);
  };

  EXPECT_TRUE(pin(Range(0, 32) + Range(100, 16), 10).ok());
  EXPECT_TRUE(pin(Range(0, 32) + Range(100, 16), 20).ok());  // Prolongs it.
  EXPECT_EQ(pins.num_pins(), 1u);
  EXPECT_EQ(pins.num_bytes(), 3 * block_bytes);
  const Status status = pin(Range(0, 32) + Range(200, 32), 10);
  EXPECT_EQ(status.code(), StatusCode::kResourceExhausted);
  EXPECT_THAT(status.message(), HasSubstr(std::to_string(2 * block_bytes) + " bytes more"));
  EXPECT_TRUE(pin(Range(0, 32) + Range(200, 16), 10).ok());
  EXPECT_EQ(pins.num_bytes(), 4 * block_bytes);
  pins.Expire(15);
  EXPECT_EQ(pins.num_bytes(), 3 * block_bytes);

  pins.Clear();
  EXPECT_EQ(pins.num_bytes(), 0u);
}

}  // namespace
}  // namespace kvern
