#include "kvcache/admission.h"

#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "kvcache/prefix_pins.h"
#include "tests/support/prefix_world.h"

namespace kvern {
namespace {

using namespace prefix_world;

// Sequences of up to 64 tokens: four blocks each, of which three are the common prompt.
constexpr uint64_t kMaxTokens = 64;

PrefixMatch MatchOf(World& world, const Tokens& tokens) {
  KeyChain chain = world.prefix->NewChain("");
  return world.prefix->Match(tokens, tokens.size() - 1, chain);
}

TEST(AdmissionTest, ASequenceThatFitsAloneIsAdmittedAndALongerOneIsNot) {
  World world({.num_blocks = 4});
  const Admission admission(*world.cache, {});

  EXPECT_TRUE(admission.Fits({}, kMaxTokens));
  EXPECT_FALSE(admission.Fits({}, kMaxTokens + 1));
}

TEST(AdmissionTest, IdleBlocksAreRoom) {
  World world({.num_blocks = 4});
  RunOnce(world, Range(0, 60));
  EXPECT_EQ(world.cache->Stats().free_blocks, 0u);

  EXPECT_TRUE(Admission(*world.cache, {}).Fits({}, kMaxTokens));
  EXPECT_TRUE(Admission(*world.cache, {}).Fits(MatchOf(world, Range(0, 60)), kMaxTokens));
}

TEST(AdmissionTest, IdleBlocksThatAreHitAreNoLongerRoomForOthers) {
  World world({.num_blocks = 6});
  RunOnce(world, Range(0, 48));
  Runner first(world, Range(500, 64), "", kMaxTokens);
  first.ComputeTo(16);
  Admission admission(*world.cache, {});
  admission.Count(first.sequence, kMaxTokens);  // Three more; five are free or idle.

  EXPECT_FALSE(admission.Fits(MatchOf(world, Range(0, 49)), /*max_tokens=*/48));  // The three that it hits.
  EXPECT_TRUE(admission.Fits({}, 32));
}

TEST(AdmissionTest, ASharedPromptCountsOnce) {
  World world({.num_blocks = 10});
  const Tokens prompt = Range(0, 48);
  std::vector<std::unique_ptr<Runner>> running;
  const auto admit = [&] {
    Admission admission(*world.cache, {});
    for (const auto& runner : running) admission.Count(runner->sequence, kMaxTokens);
    const Tokens tokens = prompt + Range(100 * static_cast<TokenId>(running.size() + 1), 16);
    if (!admission.Fits(MatchOf(world, tokens), kMaxTokens)) return false;
    running.push_back(std::make_unique<Runner>(world, tokens, "", kMaxTokens));
    running.back()->Acquire();
    running.back()->ComputeTo(49);
    return true;
  };

  while (admit()) {
  }

  EXPECT_EQ(running.size(), 7u);  // Three blocks, and one for each.
  for (const auto& runner : running) runner->Compute();
  EXPECT_EQ(world.cache->Stats().free_blocks + world.cache->Stats().idle_blocks, 0u);
}

// All blocks but the one that would be copied are taken, so it cannot be. Without that part, a row after the whole
// blocks sees one that the window has lost: nothing is reused, and what others hold saves nothing.
TEST(AdmissionTest, WhatCannotBeCopiedIsNotCounted) {
  World world({.windows = {0, 40}, .num_blocks = 15, .max_step_tokens = 16});
  RunOnce(world, Range(0, 72));  // Four blocks and the half of a fifth.
  Runner holder(world, Range(0, 64) + Range(300, 16), "", /*max_tokens=*/80);
  ASSERT_EQ(holder.Acquire().num_tokens, 64u);
  holder.ComputeTo(80, 16);  // Block 1 is behind its window.
  const Tokens prompt = Range(0, 72) + Range(400, 4);
  {
    Runner toucher(world, prompt);
    ASSERT_EQ(toucher.Acquire().num_tokens, 72u);
    toucher.sequence.Release();  // The half block was used last.
  }
  Runner filler(world, Range(1000, 144), "", /*max_tokens=*/144);
  filler.ComputeTo(144, 16);
  ASSERT_TRUE(world.prefix->MakeRoom(1, world.cache->pool(1).total_blocks() - world.cache->pool(1).Stats().full_blocks -
                                            world.cache->pool(1).Stats().filling_blocks - 1));
  ASSERT_EQ(world.prefix->AvailableBlocks()[0], 1u);
  Admission admission(*world.cache, {});
  admission.Count(holder.sequence, 80);
  admission.Count(filler.sequence, 144);

  Runner next(world, prompt, "", /*max_tokens=*/76);
  const PrefixMatch match = world.prefix->MatchWithRoom(prompt, 75, next.chain, next.sequence);

  EXPECT_EQ(MatchOf(world, prompt).num_tokens, 72u);
  EXPECT_TRUE(admission.Fits(MatchOf(world, prompt), 76));
  EXPECT_EQ(match.num_tokens, 0u);
  EXPECT_FALSE(admission.Fits(match, 76));
  EXPECT_EQ(next.Acquire().num_tokens, match.num_tokens);
}

TEST(AdmissionTest, WhatASequenceMayStillLeaseIsKeptForIt) {
  World world({.num_blocks = 6});
  Runner first(world, Range(0, 64), "", kMaxTokens);
  first.ComputeTo(16);
  Admission admission(*world.cache, {});
  admission.Count(first.sequence, kMaxTokens);

  EXPECT_TRUE(admission.Fits({}, 32));  // Five are free, three of which the first one will need.
  EXPECT_FALSE(admission.Fits({}, 33));
}

// In a window a sequence gives a shared block back and leases another, while others go on holding the first.
TEST(AdmissionTest, InAWindowEachSequenceCountsInFull) {
  World world({.windows = {16}, .num_blocks = 7, .max_step_tokens = 16});
  Runner first(world, Range(0, 64), "", kMaxTokens);
  first.ComputeTo(48, 16);
  const uint64_t most = world.cache->spec().MostBlocks(kMaxTokens)[0];
  ASSERT_EQ(most, 3u);
  Admission admission(*world.cache, {});
  admission.Count(first.sequence, kMaxTokens);

  EXPECT_TRUE(admission.Fits(MatchOf(world, Range(0, 48) + Range(200, 16)), kMaxTokens));
  admission.Count(first.sequence, kMaxTokens);
  EXPECT_FALSE(admission.Fits(MatchOf(world, Range(0, 48) + Range(200, 16)), kMaxTokens));
}

TEST(AdmissionTest, ForksShareTheWholeBlocksOfTheirPrompt) {
  World world({.num_blocks = 10});

  // Three blocks of prompt, one of its own for each of seven.
  EXPECT_TRUE(Admission(*world.cache, {}).Fits({}, kMaxTokens, /*num_forks=*/6, /*fork_tokens=*/48));
  EXPECT_FALSE(Admission(*world.cache, {}).Fits({}, kMaxTokens, 7, 48));
  EXPECT_FALSE(Admission(*world.cache, {}).Fits({}, kMaxTokens, 6, 47));
  Admission admission(*world.cache, {});
  admission.CountFork(48, kMaxTokens);
  EXPECT_TRUE(admission.Fits({}, kMaxTokens, 5, 48));
  EXPECT_FALSE(admission.Fits({}, kMaxTokens, 6, 48));
}

TEST(AdmissionTest, APinTakesNoRoomThatIsPromised) {
  World world({.num_blocks = 6});
  RunOnce(world, Range(0, 48));
  PrefixPins pins(*world.cache, 1 << 20);
  const PrefixMatch match = MatchOf(world, Range(0, 49));
  Admission empty(*world.cache, pins.num_blocks());
  EXPECT_TRUE(empty.FitsPin(match));
  Runner first(world, Range(500, 64), "", kMaxTokens);
  empty.Count(first.sequence, kMaxTokens);
  EXPECT_FALSE(empty.FitsPin(match));  // Four of six are promised.

  ASSERT_TRUE(pins.Pin(match, 10).ok());
  EXPECT_FALSE(Admission(*world.cache, pins.num_blocks()).Fits({}, kMaxTokens));
  EXPECT_TRUE(Admission(*world.cache, pins.num_blocks()).Fits(MatchOf(world, Range(0, 49)), kMaxTokens));
}

}  // namespace
}  // namespace kvern
