#include "kvcache/prefix_cache.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kvcache/policies/policy_registry.h"
#include "tests/support/prefix_world.h"

namespace kvern {
namespace {

using namespace prefix_world;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(PrefixCacheTest, NothingIsFoundInAnEmptyCache) {
  World world;
  EXPECT_EQ(NumCached(world, Range(0, 50)), 0u);
  EXPECT_EQ(NumCached(world, {}), 0u);
}

TEST(PrefixCacheTest, ASecondRequestBeginsWithTheBlocksOfTheFirst) {
  World world;
  Runner first(world, Range(0, 40));
  first.Compute();

  Runner second(world, Range(0, 32) + Range(100, 20));
  const PrefixMatch match = second.Acquire();

  EXPECT_EQ(match.num_tokens, 32u);
  EXPECT_EQ(match.num_partial_tokens, 0u);
  EXPECT_THAT(match.num_leased, ElementsAre(2u, 0u));
  EXPECT_THAT(match.num_idle, ElementsAre(0u, 0u));
  EXPECT_EQ(second.sequence.num_tokens(), 32u);
  EXPECT_EQ(second.sequence.table(0).blocks()[0], first.sequence.table(0).blocks()[0]);
  EXPECT_EQ(world.cache->pool(0).num_leases(match.blocks[0][1]), 2u);
  EXPECT_EQ(world.cache->Stats().copied_bytes, 0u);
}

TEST(PrefixCacheTest, BlocksStayIdleWhenTheirSequenceEnds) {
  World world;

  RunOnce(world, Range(0, 40));

  EXPECT_EQ(world.cache->Stats().idle_blocks, 3u);
  EXPECT_EQ(world.cache->Stats().full_blocks + world.cache->Stats().filling_blocks, 0u);
  KeyChain chain = world.prefix->NewChain("");
  const PrefixMatch match = world.prefix->Match(Range(0, 40), 39, chain);
  EXPECT_EQ(match.num_tokens, 39u);
  EXPECT_EQ(match.num_partial_tokens, 7u);
  EXPECT_THAT(match.num_idle, ElementsAre(3u, 0u));
}

TEST(PrefixCacheTest, TheBeginningOfABlockIsCopied) {
  World world;
  RunOnce(world, Range(0, 48));

  Runner second(world, Range(0, 37) + Range(100, 20));
  const PrefixMatch match = second.Acquire();

  EXPECT_EQ(match.num_tokens, 37u);
  EXPECT_EQ(match.num_partial_tokens, 5u);
  EXPECT_NE(second.sequence.table(0).blocks()[2], match.blocks[0][2]);
  EXPECT_EQ(world.cache->Stats().copied_bytes, world.cache->pool(0).layout().block_bytes());
  EXPECT_EQ(world.cache->pool(0).state(match.blocks[0][2]), BlockState::kIdle);
  EXPECT_EQ(world.prefix->Counters().copied_tokens, 5u);
}

TEST(PrefixCacheTest, TheLastTokenOfAPromptIsLeftToCompute) {
  World world;
  RunOnce(world, Range(0, 32));

  Runner again(world, Range(0, 32));

  EXPECT_EQ(again.Acquire().num_tokens, 31u);
  again.Compute();
  again.Finish();
  EXPECT_EQ(world.cache->Stats().idle_blocks, 2u);  // The block computed again is not kept beside the first.
}

TEST(PrefixCacheTest, TheNextTurnOfAChatReusesTheAnswerToItsLastToken) {
  World world;
  RunOnce(world, Range(0, 21) + Range(100, 30));  // A prompt and an answer: 51 tokens.

  Runner turn(world, Range(0, 21) + Range(100, 30) + Range(200, 40));
  EXPECT_EQ(turn.Acquire().num_tokens, 51u);
  turn.Compute();
  turn.Finish();

  // The end of the first turn is the beginning of a block of the second one: it has left.
  EXPECT_EQ(world.cache->Stats().idle_blocks, 6u);  // 91 tokens.
  EXPECT_EQ(NumCached(world, Range(0, 21) + Range(100, 30)), 51u);
}

TEST(PrefixCacheTest, WhatIsNotComputedIsNotFound) {
  World world;
  Runner first(world, Range(0, 64));
  first.ComputeTo(40);

  EXPECT_EQ(NumCached(world, Range(0, 64)), 32u);  // The third block is not full yet.

  first.sequence.Release();  // Aborted: its last tokens are lost, its full blocks are not.
  EXPECT_EQ(NumCached(world, Range(0, 64)), 32u);
  EXPECT_EQ(world.cache->Stats().idle_blocks, 2u);
  EXPECT_EQ(world.cache->Stats().free_blocks, 30u);
}

TEST(PrefixCacheTest, TenantsShareNothing) {
  World world;
  RunOnce(world, Range(0, 40), "a");

  EXPECT_EQ(NumCached(world, Range(0, 40), "a"), 40u);
  EXPECT_EQ(NumCached(world, Range(0, 40), "b"), 0u);
  EXPECT_EQ(NumCached(world, Range(0, 40), ""), 0u);
}

TEST(PrefixCacheTest, WhatWasComputedTwiceIsKeptOnce) {
  World world;
  Runner first(world, Range(0, 32)), second(world, Range(0, 32) + Range(50, 16));
  first.Compute();
  second.Compute();  // Side by side: neither found the other's.

  first.Finish();
  second.Finish();

  EXPECT_EQ(world.prefix->Counters().duplicates, 2u);
  EXPECT_EQ(world.cache->Stats().idle_blocks, 3u);
  EXPECT_EQ(NumCached(world, Range(0, 32) + Range(50, 16)), 48u);
}

TEST(PrefixCacheTest, RoomIsMadeFromTheEndOfWhatWasUnusedForLongest) {
  for (const PolicyEntry& policy : AllPolicies()) {
    World world({.num_blocks = 8, .policy = policy.name});
    RunOnce(world, Range(0, 64));
    RunOnce(world, Range(100, 64));
    EXPECT_EQ(world.cache->Stats().free_blocks, 0u);
    EXPECT_EQ(world.prefix->AvailableBlocks()[0], 8u);

    EXPECT_TRUE(world.prefix->MakeRoom(0, 3));

    EXPECT_EQ(NumCached(world, Range(0, 64)), 16u) << policy.name;
    EXPECT_EQ(NumCached(world, Range(100, 64)), 64u) << policy.name;
    EXPECT_EQ(world.prefix->Counters().evicted[0], 3u);
    EXPECT_FALSE(world.prefix->MakeRoom(0, 9));  // More than there are.
  }
}

// A block that the policy wants gone first, but that another one needs: here because it was let go first.
TEST(PrefixCacheTest, ABlockDoesNotLeaveBeforeTheIdleOnesAfterIt) {
  for (const PolicyEntry& policy : AllPolicies()) {
    World world({.num_blocks = 8, .policy = policy.name});
    Runner first(world, Range(0, 16)), second(world, Range(0, 48));
    first.Compute();
    second.Compute();  // Its first block is a duplicate: those after it stand behind the one of `first`.
    first.Finish();
    second.Finish();

    EXPECT_TRUE(world.prefix->MakeRoom(0, 6));
    EXPECT_EQ(NumCached(world, Range(0, 48)), 32u) << policy.name;
    EXPECT_TRUE(world.prefix->MakeRoom(0, 7));
    EXPECT_EQ(NumCached(world, Range(0, 48)), 16u) << policy.name;
    EXPECT_TRUE(world.prefix->MakeRoom(0, 8));
    EXPECT_EQ(NumCached(world, Range(0, 48)), 0u) << policy.name;
  }
}

TEST(PrefixCacheTest, LeasedBlocksNeverLeave) {
  World world({.num_blocks = 4});
  Runner first(world, Range(0, 32));
  first.Compute();
  RunOnce(world, Range(100, 32));

  EXPECT_FALSE(world.prefix->MakeRoom(0, 3));
  EXPECT_TRUE(world.prefix->MakeRoom(0, 2));

  EXPECT_EQ(NumCached(world, Range(0, 32)), 32u);
  EXPECT_EQ(NumCached(world, Range(100, 32)), 0u);
}

TEST(PrefixCacheTest, WhereACopyHasNoRoomWholeBlocksAreReused) {
  World world({.num_blocks = 4});
  RunOnce(world, Range(0, 40));
  Runner other(world, Range(100, 16));
  other.Compute();  // Now nothing is free, and what is idle is what would be copied.

  Runner again(world, Range(0, 40));
  EXPECT_EQ(world.prefix->MatchWithRoom(again.tokens, 39, again.chain, again.sequence).num_tokens, 32u);
  EXPECT_EQ(again.Acquire().num_tokens, 32u);
}

// Layers with a window of 32 need only the blocks that a row sees, but of these all.
TEST(PrefixCacheTest, AWindowNeedsOnlyWhatItsNextRowSees) {
  World world({.windows = {0, 32}});
  RunOnce(world, Range(0, 160));

  KeyChain chain = world.prefix->NewChain("");
  const PrefixMatch match = world.prefix->Match(Range(0, 160) + Range(500, 10), 169, chain);

  EXPECT_EQ(match.num_tokens, 160u);
  EXPECT_EQ(match.blocks[0].size(), 10u);
  // The row at 160 sees 129 and on: block 8 and 9.
  EXPECT_EQ(std::ranges::count(match.blocks[1], kNoBlock), 8);
  EXPECT_THAT(match.num_idle, ElementsAre(10u, 2u));
}

TEST(PrefixCacheTest, TheLongestPrefixIsOneThatEveryGroupHas) {
  World world({.windows = {0, 32}});
  RunOnce(world, Range(0, 160));
  // Behind the window of the sequence that computed them, they leave first: blocks 0 to 7.
  EXPECT_TRUE(world.prefix->MakeRoom(1, 32 - 2));

  EXPECT_EQ(NumCached(world, Range(0, 160) + Range(500, 10)), 160u);  // What the last row sees is there.
  EXPECT_EQ(NumCached(world, Range(0, 100) + Range(500, 10)), 0u);    // What a row at 100 sees is not.
}

TEST(PrefixCacheTest, BlocksBehindAWindowAreFoundUntilTheyLeave) {
  World world({.windows = {0, 32}});
  Runner first(world, Range(0, 160));
  for (uint64_t n = 32; n <= 160; n += 32) first.ComputeTo(n);  // It gives blocks back as it goes.
  EXPECT_LE(first.sequence.table(1).num_held(), 3u);

  Runner second(world, Range(0, 100) + Range(500, 10));

  EXPECT_EQ(second.Acquire().num_tokens, 100u);
  second.Compute();
  second.Finish();
  first.Finish();
  EXPECT_EQ(NumCached(world, Range(0, 100) + Range(500, 10)), 110u);
}

TEST(PrefixCacheTest, AChunkLongerThanTheWindowIsPublishedWhole) {
  World world({.windows = {0, 32}});
  Runner first(world, Range(0, 160));
  first.Compute();  // In one step.

  EXPECT_EQ(NumCached(world, Range(0, 70) + Range(500, 10)), 70u);
}

TEST(PrefixCacheTest, ABlockThatWasHitIsNoLongerFirstToLeave) {
  World world({.windows = {0, 32}});
  RunOnce(world, Range(0, 160));
  RunOnce(world, Range(0, 64) + Range(500, 64));  // Hits what the row at 64 sees: blocks 2 and 3 of the window.

  EXPECT_TRUE(world.prefix->MakeRoom(1, 32 - 6));

  EXPECT_EQ(NumCached(world, Range(0, 64) + Range(700, 10)), 64u);
}

TEST(PrefixCacheTest, OtherPlacementsBeginWithCopies) {
  for (const Placement* placement : {&ContiguousPlacement(), &GrowingPlacement()}) {
    World world({.placement = placement});
    {
      Runner first(world, Range(0, 40), "", /*max_tokens=*/64);
      first.Compute();
      EXPECT_EQ(NumCached(world, Range(0, 40)), 0u);  // Published at the end.
      first.Finish();
    }
    EXPECT_EQ(world.cache->Stats().idle_blocks, 3u);

    Runner second(world, Range(0, 37) + Range(100, 10), "", /*max_tokens=*/64);
    EXPECT_EQ(second.Acquire().num_tokens, 37u) << placement->Name();

    EXPECT_EQ(world.cache->Stats().copied_bytes, 3 * world.cache->pool(0).layout().block_bytes());
    EXPECT_EQ(world.cache->Stats().idle_blocks, 3u);
    second.Compute();
    second.Finish();
    EXPECT_EQ(NumCached(world, Range(0, 37) + Range(100, 10)), 47u);
  }
}

TEST(PrefixCacheTest, WhereCopiesHaveNoRoomOtherPlacementsComputeAnew) {
  World world({.num_blocks = 5, .placement = &ContiguousPlacement()});
  {
    Runner first(world, Range(0, 40), "", /*max_tokens=*/64);
    first.Compute();
    first.Finish();
  }

  Runner second(world, Range(0, 40), "", /*max_tokens=*/64);  // Four blocks beside the three found: more than five.
  EXPECT_EQ(second.Acquire().num_tokens, 0u);
  second.Compute();
  EXPECT_EQ(second.sequence.num_tokens(), 40u);
}

TEST(PrefixCacheTest, ARingTakesNoPart) {
  World world({.windows = {32}, .placement = &RingPlacement()});
  Runner first(world, Range(0, 40), "", /*max_tokens=*/64);
  first.Compute();
  first.Finish();

  EXPECT_EQ(NumCached(world, Range(0, 40)), 0u);
  EXPECT_EQ(world.cache->Stats().free_blocks, 32u);
}

TEST(PrefixCacheTest, AForkPublishesWhatIsItsOwn) {
  World world;
  Runner first(world, Range(0, 40) + Range(100, 30));
  first.ComputeTo(40);
  Runner fork(world, Range(0, 40) + Range(200, 30));
  ASSERT_TRUE(fork.sequence.Fork(first.sequence).ok());
  fork.chain = first.chain;
  first.Compute();
  fork.Compute();

  first.Finish();
  fork.Finish();

  EXPECT_EQ(NumCached(world, Range(0, 40) + Range(100, 30)), 70u);
  EXPECT_EQ(NumCached(world, Range(0, 40) + Range(200, 30)), 70u);
  EXPECT_EQ(world.cache->Stats().idle_blocks, 2u + 3u + 3u);
  EXPECT_EQ(world.prefix->Counters().duplicates, 0u);
}

TEST(PrefixCacheTest, APublishedBlockIsCopiedBeforeItIsWrittenAgain) {
  World world;
  Runner first(world, Range(0, 40));
  first.Compute();
  const BlockIndex published = first.sequence.table(0).blocks()[1];

  ASSERT_TRUE(first.sequence.Truncate(20).ok());
  first.chain.Truncate(20);
  first.tokens = Range(0, 20) + Range(300, 20);
  first.Compute();

  EXPECT_NE(first.sequence.table(0).blocks()[1], published);
  EXPECT_EQ(NumCached(world, Range(0, 32)), 32u);
  EXPECT_EQ(NumCached(world, Range(0, 20) + Range(300, 12)), 32u);
}

TEST(PrefixCacheTest, ASecondRequestLearnsWhoComputesItsNextBlock) {
  World world;
  Runner first(world, Range(0, 64)), second(world, Range(0, 48) + Range(100, 16));
  world.prefix->BeginCompute(first.Acquire(), first.chain, /*owner=*/1);
  const auto computed_by = [&] {
    return world.prefix->ComputedBy(world.prefix->Match(second.tokens, 63, second.chain), second.chain);
  };

  EXPECT_EQ(computed_by(), 1u);
  first.ComputeTo(32);
  EXPECT_EQ(computed_by(), 1u);
  first.ComputeTo(48);
  EXPECT_EQ(computed_by(), std::nullopt);  // All that they share is there.
  EXPECT_EQ(second.Acquire().num_tokens, 48u);
}

TEST(PrefixCacheTest, WhereTheFirstIsCancelledTheSecondTakesOver) {
  World world;
  Runner first(world, Range(0, 64)), second(world, Range(0, 64));
  world.prefix->BeginCompute(first.Acquire(), first.chain, 1);
  first.ComputeTo(20);
  first.sequence.Release();

  world.prefix->EndCompute(1);

  const PrefixMatch match = second.Acquire();
  EXPECT_EQ(match.num_tokens, 16u);
  EXPECT_EQ(world.prefix->ComputedBy(match, second.chain), std::nullopt);
}

TEST(PrefixCacheTest, ClearFreesWhatIsIdleAndForgetsWhatIsNot) {
  World world;
  RunOnce(world, Range(0, 32), "a");
  RunOnce(world, Range(0, 32), "b");
  Runner running(world, Range(0, 32), "a");
  running.Acquire();

  EXPECT_EQ(world.prefix->Clear("a"), world.cache->pool(0).layout().block_bytes());  // The other one is leased.
  EXPECT_EQ(world.prefix->Clear("c"), 0u);
  EXPECT_EQ(NumCached(world, Range(0, 32), "a"), 0u);
  EXPECT_EQ(NumCached(world, Range(0, 32), "b"), 32u);
  EXPECT_EQ(world.prefix->Holdings()[1].blocks, 2u);
  EXPECT_EQ(world.prefix->Holdings()[1].salt, "b");
  running.sequence.Release();
  world.prefix->Clear(std::nullopt);

  EXPECT_EQ(world.cache->Stats().free_blocks, 32u);
}

TEST(PrefixCacheTest, EachTenantSeesWhatItHasAndWhatItHit) {
  World world;
  RunOnce(world, Range(0, 41), "a");
  RunOnce(world, Range(0, 41), "b");
  RunOnce(world, Range(0, 41), "a");

  const std::vector<TenantHolding> holdings = world.prefix->Holdings();

  ASSERT_EQ(holdings.size(), 2u);
  EXPECT_EQ(holdings[0].salt, "a");
  EXPECT_EQ(holdings[0].tokens, 41u);
  EXPECT_EQ(holdings[0].blocks, 3u);
  EXPECT_EQ(holdings[0].idle_blocks, 3u);
  EXPECT_EQ(holdings[0].bytes, 3 * world.cache->pool(0).layout().block_bytes());
  EXPECT_EQ(holdings[0].lookup_tokens, 80u);
  EXPECT_EQ(holdings[0].hit_tokens, 40u);
  EXPECT_EQ(holdings[1].hit_tokens, 0u);
}

TEST(PrefixCacheTest, APreemptedSequenceGoesOnWhereItWas) {
  World world;
  Runner runner(world, Range(0, 71));
  runner.ComputeTo(70);
  runner.Finish();

  const PrefixMatch match = runner.Acquire();

  EXPECT_EQ(match.num_tokens, 70u);
  runner.Compute();
  EXPECT_EQ(runner.sequence.num_tokens(), 71u);
}

TEST(PrefixCacheTest, AnUnknownPolicyIsRefused) {
  World world;
  const auto created =
      PrefixCache::Create(*world.cache, {.block_size = kBlockSize, .groups = {{}}, .pinned = {}}, "random");
  EXPECT_THAT(created.status().message(), HasSubstr("'random'"));
}

}  // namespace
}  // namespace kvern
