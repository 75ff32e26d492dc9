#include <gtest/gtest.h>

#include "kvcache/prefix_cache.h"
#include "tests/support/prefix_world.h"

namespace kvern {
namespace {

using namespace prefix_world;

PrefixAudit Explain(World& world, const Tokens& prompt, std::string_view salt = "") {
  KeyChain chain = world.prefix->NewChain(salt);
  const PrefixMatch match = world.prefix->Match(prompt, prompt.size() - 1, chain);
  const PrefixAudit audit = world.prefix->Explain(prompt, match, chain);
  EXPECT_EQ(audit.reused + audit.first_time + audit.evicted + audit.diverged + audit.last_token, prompt.size());
  return audit;
}

TEST(PrefixCacheAuditTest, TokensThatNobodyComputedAreThereForTheFirstTime) {
  World world;
  RunOnce(world, Range(0, 40));

  EXPECT_EQ(Explain(world, Range(500, 40)).first_time, 40u);
  const PrefixAudit longer = Explain(world, Range(0, 60));
  EXPECT_EQ(longer.reused, 40u);
  EXPECT_EQ(longer.first_time, 20u);
  EXPECT_FALSE(longer.divergence.has_value());
}

TEST(PrefixCacheAuditTest, TheLastTokenIsAlwaysComputed) {
  World world;
  RunOnce(world, Range(0, 40));

  EXPECT_EQ(Explain(world, Range(0, 40)).last_token, 1u);
}

TEST(PrefixCacheAuditTest, ADivergenceSaysWhereAndFromWhat) {
  World world;
  RunOnce(world, Range(0, 48), "a");

  const PrefixAudit audit = Explain(world, Range(0, 21) + Range(300, 30), "a");

  EXPECT_EQ(audit.reused, 21u);
  EXPECT_EQ(audit.diverged, 30u);
  ASSERT_TRUE(audit.divergence.has_value());
  EXPECT_EQ(audit.divergence->position, 21u);
  EXPECT_EQ(audit.divergence->block_begin, 16u);
  EXPECT_EQ(audit.divergence->tokens, Range(16, 16));
  EXPECT_FALSE(Explain(world, Range(0, 21) + Range(300, 30), "b").divergence.has_value());  // Not of this tenant.
}

TEST(PrefixCacheAuditTest, WhoeverSharesASaltIsNotShownTheTokensOfOthers) {
  World world;
  {
    Runner first(world, Range(0, 48));
    first.chain = world.prefix->NewChain("group", "alice");
    first.Compute();
    first.Finish();
  }
  const Tokens prompt = Range(0, 21) + Range(300, 30);
  const auto explain = [&](std::string_view client) {
    KeyChain chain = world.prefix->NewChain("group", client);
    const PrefixMatch match = world.prefix->Match(prompt, prompt.size() - 1, chain);
    return world.prefix->Explain(prompt, match, chain);
  };

  EXPECT_EQ(explain("alice").divergence->tokens, Range(16, 16));
  const PrefixAudit other = explain("bob");

  EXPECT_EQ(other.reused, 21u);  // They share blocks.
  EXPECT_EQ(other.diverged, 30u);
  EXPECT_EQ(other.divergence->position, 21u);
  EXPECT_TRUE(other.divergence->tokens.empty());
}

TEST(PrefixCacheAuditTest, BlocksThatHadToLeaveAreCountedApart) {
  World world({.num_blocks = 8});
  RunOnce(world, Range(0, 64));
  world.prefix->MakeRoom(0, 6);

  const PrefixAudit audit = Explain(world, Range(0, 64) + Range(200, 20));

  EXPECT_EQ(audit.reused, 32u);
  EXPECT_EQ(audit.evicted, 32u);
  EXPECT_EQ(audit.first_time, 20u);
}

// Here the divergence lies behind what one group has lost.
TEST(PrefixCacheAuditTest, BothCausesMayMeetInOnePrompt) {
  World world({.windows = {0, 32}});
  RunOnce(world, Range(0, 160));
  world.prefix->MakeRoom(1, 32);

  const PrefixAudit audit = Explain(world, Range(0, 105) + Range(500, 10));

  EXPECT_EQ(audit.evicted, 105u);
  EXPECT_EQ(audit.diverged, 10u);
  EXPECT_EQ(audit.divergence->position, 105u);
  EXPECT_EQ(audit.divergence->block_begin, 96u);
}

TEST(PrefixCacheAuditTest, WhatOneGroupLostCountsAsEvicted) {
  World world({.windows = {0, 32}});
  RunOnce(world, Range(0, 160));
  world.prefix->MakeRoom(1, 32);

  const PrefixAudit audit = Explain(world, Range(0, 160) + Range(500, 10));

  EXPECT_EQ(audit.reused, 0u);
  EXPECT_EQ(audit.evicted, 160u);
  EXPECT_EQ(audit.first_time, 10u);
}

}  // namespace
}  // namespace kvern
