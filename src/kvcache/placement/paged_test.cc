// What is the paged placement's own; tests/conformance/ has what all placements do.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <vector>

#include "kvcache/placement/placement.h"

namespace kvern {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr uint32_t kBlockSize = 16;

std::unique_ptr<BlockPool> PoolOf(uint64_t num_blocks) {
  const BlockLayout layout = BlockLayout::Create({1, 1, 16}, kBlockSize, KvType::kF16, KvType::kF16).value();
  return BlockPool::Create(layout, num_blocks * layout.block_bytes(), HeapAllocator()).value();
}

std::unique_ptr<BlockTable> NewTable(BlockPool& pool, const AttentionSpan& span = {}) {
  return PagedPlacement().MakeTable(pool, {.max_tokens = 100'000, .max_step_tokens = 512, .span = span});
}

void Grow(BlockTable& table, uint64_t count) {
  ASSERT_TRUE(table.Reserve(table.num_tokens() + count).ok());
  table.Commit(count);
}

TEST(PagedTest, ReserveLeasesOnlyWhatIsMissing) {
  const auto pool = PoolOf(4);
  const auto table = NewTable(*pool);

  ASSERT_TRUE(table->Reserve(17).ok());
  ASSERT_TRUE(table->Reserve(32).ok());
  ASSERT_TRUE(table->Reserve(1).ok());

  EXPECT_THAT(table->blocks(), ElementsAre(0u, 1u));
  EXPECT_EQ(table->num_tokens(), 0u);
}

TEST(PagedTest, BlocksBecomeFullWhenTheirLastSlotIsCommitted) {
  const auto pool = PoolOf(3);
  const auto table = NewTable(*pool);
  ASSERT_TRUE(table->Reserve(40).ok());

  table->Commit(15);
  EXPECT_EQ(pool->state(0), BlockState::kFilling);
  table->Commit(1);
  EXPECT_EQ(pool->state(0), BlockState::kFull);
  table->Commit(24);

  EXPECT_EQ(pool->state(1), BlockState::kFull);
  EXPECT_EQ(pool->state(2), BlockState::kFilling);
}

TEST(PagedTest, AForkSharesFullBlocksAndCopiesTheLast) {
  const auto pool = PoolOf(5);
  const auto table = NewTable(*pool), fork = NewTable(*pool);
  ASSERT_TRUE(table->Reserve(64).ok());
  table->Commit(40);
  std::memset(pool->BlockBytes(2), 77, pool->layout().block_bytes());

  ASSERT_TRUE(fork->Fork(*table).ok());

  EXPECT_THAT(fork->blocks(), ElementsAre(0u, 1u, 4u));
  EXPECT_EQ(fork->num_tokens(), 40u);
  EXPECT_EQ(pool->num_leases(1), 2u);
  EXPECT_EQ(pool->num_leases(2), 1u);
  EXPECT_EQ(pool->state(4), BlockState::kFilling);
  EXPECT_EQ(std::memcmp(pool->BlockBytes(4), pool->BlockBytes(2), pool->layout().block_bytes()), 0);
}

TEST(PagedTest, AForkOfWholeBlocksTakesNoneOfItsOwn) {
  const auto pool = PoolOf(2);
  const auto table = NewTable(*pool), fork = NewTable(*pool);
  Grow(*table, 32);

  ASSERT_TRUE(fork->Fork(*table).ok());
  table->Release();

  EXPECT_THAT(fork->blocks(), ElementsAre(0u, 1u));
  EXPECT_EQ(pool->Stats().full_blocks, 2u);
  EXPECT_EQ(fork->Reserve(33).code(), StatusCode::kResourceExhausted);
}

TEST(PagedTest, ATruncatedForkGoesOnInABlockOfItsOwn) {
  const auto pool = PoolOf(4);
  const auto table = NewTable(*pool), fork = NewTable(*pool);
  Grow(*table, 32);
  ASSERT_TRUE(fork->Fork(*table).ok());

  ASSERT_TRUE(fork->Truncate(20).ok());

  EXPECT_THAT(fork->blocks(), ElementsAre(0u, 2u));
  EXPECT_EQ(pool->num_leases(1), 1u);
  EXPECT_EQ(pool->state(1), BlockState::kFull);
  EXPECT_EQ(pool->state(2), BlockState::kFilling);
}

TEST(PagedTest, BlocksBehindTheWindowGoBackAndPinnedOnesStay) {
  const auto pool = PoolOf(10);
  const std::vector<PositionRange> pinned = {{0, 4}, {40, 41}};
  const auto table = NewTable(*pool, {.window = 20, .pinned = pinned});

  Grow(*table, 90);

  // The next row, at 90, sees positions from 71 on.
  EXPECT_THAT(table->blocks(), ElementsAre(0u, kNoBlock, 2u, kNoBlock, 4u, 5u));
  EXPECT_EQ(pool->free_blocks(), 6u);
  EXPECT_EQ(table->num_held(), 4u);
}

TEST(PagedTest, WhatTheWindowHasGivenBackCannotBeReachedAgain) {
  const auto pool = PoolOf(10);
  const auto table = NewTable(*pool, {.window = 20});
  Grow(*table, 90);

  EXPECT_EQ(table->Truncate(80).code(), StatusCode::kInvalidArgument);  // A row at 80 sees 61, in block 3.
  EXPECT_EQ(table->num_tokens(), 90u);
  EXPECT_TRUE(table->Truncate(84).ok());
  EXPECT_TRUE(table->Truncate(0).ok());
  EXPECT_THAT(table->blocks(), IsEmpty());
}

TEST(PagedTest, AForkInAWindowSharesWhatIsLeft) {
  const auto pool = PoolOf(10);
  const auto table = NewTable(*pool, {.window = 20}), fork = NewTable(*pool, {.window = 20});
  Grow(*table, 90);

  ASSERT_TRUE(fork->Fork(*table).ok());
  Grow(*table, 50);

  EXPECT_EQ(pool->num_leases(4), 1u);
  EXPECT_EQ(fork->blocks()[4], 4u);
  EXPECT_EQ(fork->num_held(), 2u);
}

// Sequences that decode side by side, a token each in turn: each of them gets neighbours, 16 blocks in a row.
TEST(PagedTest, SmallBlocksOfManySequencesStandInRuns) {
  constexpr uint64_t kSequences = 8, kTokens = 1024;
  const auto pool = PoolOf(kSequences * kTokens / kBlockSize);
  std::vector<std::unique_ptr<BlockTable>> tables;
  for (uint64_t i = 0; i < kSequences; ++i) tables.push_back(NewTable(*pool));

  for (uint64_t t = 0; t < kTokens; ++t) {
    for (const auto& table : tables) Grow(*table, 1);
  }

  for (const auto& table : tables) {
    uint64_t num_breaks = 0;
    for (size_t i = 1; i < table->blocks().size(); ++i) {
      num_breaks += table->blocks()[i] == table->blocks()[i - 1] + 1 ? 0 : 1;
    }
    EXPECT_LE(num_breaks, kTokens / 256 - 1);
  }
  EXPECT_EQ(pool->free_blocks(), 0u);
}

// Where no extent is free any more, gaps are used: no block is out of reach.
TEST(PagedTest, RunsNeverKeepABlockFromBeingLeased) {
  const auto pool = PoolOf(64);
  std::vector<std::unique_ptr<BlockTable>> tables;
  for (int i = 0; i < 64; ++i) {
    tables.push_back(NewTable(*pool));
    Grow(*tables.back(), 1);
  }

  EXPECT_EQ(pool->free_blocks(), 0u);
  for (int i = 0; i < 64; i += 2) tables[static_cast<size_t>(i)]->Release();
  const auto large = NewTable(*pool);
  EXPECT_TRUE(large->Reserve(32 * kBlockSize).ok());
}

}  // namespace
}  // namespace kvern
