#include "kvcache/block_pool.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <utility>
#include <vector>

namespace kvern {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

BlockLayout SmallLayout() { return BlockLayout::Create({1, 1, 16}, 16, KvType::kF16, KvType::kF16).value(); }

std::unique_ptr<BlockPool> PoolOf(uint64_t num_blocks) {
  const BlockLayout layout = SmallLayout();
  return BlockPool::Create(layout, num_blocks * layout.block_bytes(), HeapAllocator()).value();
}

class CountingAllocator : public MemoryAllocator {
 public:
  Result<AlignedBuffer> Allocate(size_t num_bytes) override {
    requested_.push_back(num_bytes);
    if (is_failing_) return Status::ResourceExhausted("no memory");
    return HeapAllocator().Allocate(num_bytes);
  }
  std::vector<size_t> requested_;
  bool is_failing_ = false;
};

TEST(BlockPoolTest, HoldsAsManyBlocksAsFitTheBudget) {
  const BlockLayout layout = SmallLayout();
  CountingAllocator allocator;

  const auto pool = BlockPool::Create(layout, 4 * layout.block_bytes() - 1, allocator);

  ASSERT_TRUE(pool.ok());
  EXPECT_EQ((*pool)->Stats().total_blocks, 3u);
  EXPECT_EQ((*pool)->Stats().free_blocks, 3u);
  EXPECT_EQ((*pool)->Stats().block_bytes, 1024u);
  EXPECT_THAT(allocator.requested_, ElementsAre(3 * 1024u));
}

TEST(BlockPoolTest, BudgetBelowOneBlockSaysHowManyBytesOneNeedsAndAllocatesNothing) {
  const BlockLayout layout = SmallLayout();
  CountingAllocator allocator;

  const auto pool = BlockPool::Create(layout, 1023, allocator);

  ASSERT_FALSE(pool.ok());
  EXPECT_EQ(pool.status().code(), StatusCode::kResourceExhausted);
  EXPECT_THAT(pool.status().message(), HasSubstr("1023 bytes"));
  EXPECT_THAT(pool.status().message(), HasSubstr("needs 1024"));
  EXPECT_THAT(allocator.requested_, IsEmpty());
}

TEST(BlockPoolTest, AllocationFailureIsReported) {
  CountingAllocator allocator;
  allocator.is_failing_ = true;

  const auto pool = BlockPool::Create(SmallLayout(), 4096, allocator);

  ASSERT_FALSE(pool.ok());
  EXPECT_EQ(pool.status().code(), StatusCode::kResourceExhausted);
}

TEST(BlockPoolTest, LeasedBlocksAreFilling) {
  const auto pool = PoolOf(4);

  const auto lease = pool->Lease(3);

  ASSERT_TRUE(lease.has_value());
  EXPECT_THAT(lease->blocks(), ElementsAre(0u, 1u, 2u));
  EXPECT_EQ(pool->state(0), BlockState::kFilling);
  EXPECT_EQ(pool->state(3), BlockState::kFree);
  EXPECT_EQ(pool->Stats().filling_blocks, 3u);
  EXPECT_EQ(pool->Stats().free_blocks, 1u);
}

TEST(BlockPoolTest, LeaseOfMoreThanIsFreeChangesNothing) {
  const auto pool = PoolOf(4);
  const auto first = pool->Lease(3);

  const auto second = pool->Lease(2);

  EXPECT_FALSE(second.has_value());
  EXPECT_EQ(pool->Stats().free_blocks, 1u);
  EXPECT_EQ(pool->Stats().peak_used_blocks, 3u);
}

TEST(BlockPoolTest, LeaseOfNothingIsEmpty) {
  const auto pool = PoolOf(1);

  const auto lease = pool->Lease(0);

  ASSERT_TRUE(lease.has_value());
  EXPECT_THAT(lease->blocks(), IsEmpty());
}

TEST(BlockPoolTest, FullAndFillingFollowTheOwner) {
  const auto pool = PoolOf(2);
  const auto lease = pool->Lease(2);

  pool->MarkFull(0);
  EXPECT_EQ(pool->state(0), BlockState::kFull);
  EXPECT_EQ(pool->Stats().full_blocks, 1u);
  EXPECT_EQ(pool->Stats().filling_blocks, 1u);

  pool->MarkFilling(0);
  EXPECT_EQ(pool->state(0), BlockState::kFilling);
  EXPECT_EQ(pool->Stats().full_blocks, 0u);
  EXPECT_EQ(pool->Stats().filling_blocks, 2u);
}

TEST(BlockPoolTest, DroppedLeaseGivesFullAndFillingBlocksBack) {
  const auto pool = PoolOf(3);

  {
    const auto lease = pool->Lease(2);
    pool->MarkFull(1);
  }

  EXPECT_EQ(pool->Stats().free_blocks, 3u);
  EXPECT_EQ(pool->Stats().full_blocks, 0u);
  EXPECT_EQ(pool->Stats().filling_blocks, 0u);
  EXPECT_EQ(pool->Stats().peak_used_blocks, 2u);
  EXPECT_EQ(pool->state(1), BlockState::kFree);
}

TEST(BlockPoolTest, MovedLeaseOwnsAloneAndAssignmentGivesTheOldBlocksBack) {
  const auto pool = PoolOf(3);
  auto first = pool->Lease(1);
  auto second = pool->Lease(2);

  BlockLease moved = *std::move(first);
  EXPECT_THAT(first->blocks(), IsEmpty());
  EXPECT_EQ(pool->Stats().free_blocks, 0u);

  moved = *std::move(second);
  EXPECT_THAT(moved.blocks(), ElementsAre(1u, 2u));
  EXPECT_EQ(pool->Stats().free_blocks, 1u);
}

TEST(BlockPoolTest, AppendedLeaseKeepsTheOrder) {
  const auto pool = PoolOf(3);
  BlockLease lease;

  lease.Append(*pool->Lease(2));
  lease.Append(*pool->Lease(1));
  lease.Append(BlockLease());

  EXPECT_THAT(lease.blocks(), ElementsAre(0u, 1u, 2u));
  lease.Release();
  EXPECT_THAT(lease.blocks(), SizeIs(0));
  EXPECT_EQ(pool->Stats().free_blocks, 3u);
}

TEST(BlockPoolTest, ASharedBlockIsFreeWhenItsLastLeaseEnds) {
  const auto pool = PoolOf(3);
  auto first = pool->Lease(2);
  pool->MarkFull(0);

  BlockLease second = pool->Share(first->blocks().first(1));
  EXPECT_THAT(second.blocks(), ElementsAre(0u));
  EXPECT_EQ(pool->num_leases(0), 2u);
  EXPECT_EQ(pool->Stats().full_blocks, 1u);
  EXPECT_EQ(pool->Stats().free_blocks, 1u);

  first->Release();
  EXPECT_EQ(pool->state(0), BlockState::kFull);
  EXPECT_EQ(pool->state(1), BlockState::kFree);
  EXPECT_EQ(pool->num_leases(0), 1u);

  second.Release();
  EXPECT_EQ(pool->state(0), BlockState::kFree);
  EXPECT_EQ(pool->Stats().free_blocks, 3u);
  EXPECT_EQ(pool->Stats().peak_used_blocks, 2u);
}

TEST(BlockPoolTest, ARunIsNeighboursOrNothing) {
  const auto pool = PoolOf(10);
  auto first = pool->Lease(4);
  auto second = pool->Lease(3);
  first->Release();  // 0 to 3 and 7 to 9 are free.

  EXPECT_FALSE(pool->LeaseRun(5).has_value());
  const auto run = pool->LeaseRun(3);

  ASSERT_TRUE(run.has_value());
  EXPECT_THAT(run->blocks(), ElementsAre(7u, 8u, 9u));  // The shortest that is long enough.
  EXPECT_THAT(pool->Lease(4)->blocks(), ElementsAre(0u, 1u, 2u, 3u));
}

TEST(BlockPoolTest, ASequenceGetsTheNeighboursOfItsLastBlock) {
  const auto pool = PoolOf(100);  // Extents of 16 blocks of 16 slots.
  const auto first = pool->Lease(2), second = pool->Lease(2);

  const auto more = pool->Lease(3, first->blocks().back());
  const auto too_many = pool->Lease(20, second->blocks().back());

  EXPECT_THAT(second->blocks(), ElementsAre(16u, 17u));
  EXPECT_THAT(more->blocks(), ElementsAre(2u, 3u, 4u));
  EXPECT_EQ(too_many->blocks().front(), 18u);
  EXPECT_EQ(too_many->blocks().back(), 37u);
}

TEST(BlockPoolTest, EntriesOfALeaseGoBackOneByOne) {
  const auto pool = PoolOf(6);
  BlockLease lease = *pool->Lease(4);

  lease.Drop(1);
  EXPECT_THAT(lease.blocks(), ElementsAre(0u, kNoBlock, 2u, 3u));
  EXPECT_EQ(lease.num_held(), 3u);
  EXPECT_EQ(pool->state(1), BlockState::kFree);
  lease.Replace(2, *pool->LeaseRun(1));
  EXPECT_THAT(lease.blocks(), ElementsAre(0u, kNoBlock, 1u, 3u));
  EXPECT_EQ(pool->state(2), BlockState::kFree);
  lease.Shrink(1);
  EXPECT_THAT(lease.blocks(), ElementsAre(0u));
  EXPECT_EQ(lease.num_held(), 1u);

  EXPECT_EQ(pool->free_blocks(), 5u);
}

TEST(BlockPoolTest, PoolsOfOneBudgetCountTheirPeakTogether) {
  const BlockLayout layout = SmallLayout();
  CacheMeter meter;
  const auto first = BlockPool::Create(layout, 4096, HeapAllocator(), &meter).value();
  const auto second = BlockPool::Create(layout, 4096, HeapAllocator(), &meter).value();

  { const auto lease = first->Lease(3); }
  { const auto lease = second->Lease(2), other = first->Lease(2); }

  EXPECT_EQ(meter.peak_used_bytes, 4 * layout.block_bytes());
  EXPECT_EQ(meter.used_bytes, 0u);
}

TEST(BlockPoolTest, CopyMovesAllBytesOfABlockAndNoOthers) {
  const auto pool = PoolOf(3);
  const auto lease = pool->Lease(3);
  uint8_t* const base = pool->view().base;
  const uint64_t num_bytes = pool->layout().block_bytes();
  for (uint64_t i = 0; i < 3 * num_bytes; ++i) base[i] = static_cast<uint8_t>(i / num_bytes * 50 + i % 50);

  pool->Copy(0, 1);

  for (uint64_t i = 0; i < num_bytes; ++i) {
    ASSERT_EQ(base[num_bytes + i], base[i]);
    ASSERT_EQ(base[2 * num_bytes + i], 100 + (2 * num_bytes + i) % 50);
  }
}

// Writes down what it is told.
class RecordingObserver : public IdleObserver {
 public:
  void OnIdle(BlockIndex block) override { idle_.push_back(block); }
  void OnLeasedAgain(BlockIndex block) override { leased_again_.push_back(block); }
  std::vector<BlockIndex> idle_, leased_again_;
};

TEST(BlockPoolTest, AKeptBlockIsIdleWhenItsLastLeaseEnds) {
  const auto pool = PoolOf(4);
  auto lease = pool->Lease(3);
  pool->MarkFull(0);
  pool->MarkFull(1);
  pool->Keep(0);

  lease->Release();

  EXPECT_EQ(pool->state(0), BlockState::kIdle);
  EXPECT_EQ(pool->state(1), BlockState::kFree);
  EXPECT_EQ(pool->Stats().idle_blocks, 1u);
  EXPECT_EQ(pool->Stats().idle_bytes, pool->layout().block_bytes());
  EXPECT_EQ(pool->Stats().free_blocks, 3u);
  EXPECT_FALSE(pool->Lease(4).has_value());  // An idle block is not leased anew before it is evicted.
  pool->Evict(0);
}

TEST(BlockPoolTest, AnIdleBlockIsSharedAgainOrEvicted) {
  const auto pool = PoolOf(2);
  auto lease = pool->Lease(1);
  pool->MarkFull(0);
  pool->Keep(0);
  lease->Release();

  BlockLease again = pool->Share(std::vector<BlockIndex>{0});
  EXPECT_EQ(pool->state(0), BlockState::kFull);
  EXPECT_EQ(pool->num_leases(0), 1u);
  EXPECT_FALSE(pool->IsOwn(0));  // It could be found.
  again.Release();
  EXPECT_EQ(pool->state(0), BlockState::kIdle);

  pool->Evict(0);
  EXPECT_EQ(pool->state(0), BlockState::kFree);
  EXPECT_FALSE(pool->is_kept(0));
  EXPECT_EQ(pool->Lease(2)->blocks().size(), 2u);
}

TEST(BlockPoolTest, ABlockThatIsKeptNoLongerBecomesFree) {
  const auto pool = PoolOf(1);
  auto lease = pool->Lease(1);
  pool->MarkFull(0);
  pool->Keep(0);

  pool->StopKeeping(0);
  lease->Release();

  EXPECT_EQ(pool->state(0), BlockState::kFree);
}

TEST(BlockPoolTest, TheObserverLearnsOfIdleBlocksTheLastOfALeaseFirst) {
  const auto pool = PoolOf(4);
  RecordingObserver observer;
  pool->SetIdleObserver(&observer);
  auto lease = pool->Lease(3);
  for (const BlockIndex block : lease->blocks()) {
    pool->MarkFull(block);
    pool->Keep(block);
  }

  lease->Release();
  { const BlockLease again = pool->Share(std::vector<BlockIndex>{1}); }

  EXPECT_THAT(observer.idle_, ElementsAre(2u, 1u, 0u, 1u));
  EXPECT_THAT(observer.leased_again_, ElementsAre(1u));
  for (BlockIndex block = 0; block < 3; ++block) pool->Evict(block);
}

TEST(BlockPoolTest, IdleBlocksAreNotCountedAsUsed) {
  const BlockLayout layout = SmallLayout();
  CacheMeter meter;
  const auto pool = BlockPool::Create(layout, 4096, HeapAllocator(), &meter).value();
  auto lease = pool->Lease(1);
  pool->MarkFull(0);
  pool->Keep(0);

  lease->Release();
  EXPECT_EQ(meter.used_bytes, 0u);
  { const BlockLease again = pool->Share(std::vector<BlockIndex>{0}), other = *pool->Lease(1); }

  EXPECT_EQ(meter.peak_used_bytes, 2 * layout.block_bytes());
  EXPECT_EQ(pool->Stats().peak_used_blocks, 2u);
  EXPECT_EQ(meter.used_bytes, 0u);
}

TEST(BlockPoolDeathTest, BrokenMovesEndTheProcess) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto pool = PoolOf(3);
  const auto lease = pool->Lease(2);
  pool->MarkFull(1);
  const BlockLease shared = pool->Share(lease->blocks().last(1));

  EXPECT_DEATH(pool->MarkFull(2), "check failed");                   // Free.
  EXPECT_DEATH(pool->MarkFilling(0), "check failed");                // Not full.
  EXPECT_DEATH(pool->MarkFull(3), "check failed");                   // No such block.
  EXPECT_DEATH(pool->MarkFilling(1), "check failed");                // Another reads it.
  EXPECT_DEATH(pool->Copy(0, 1), "check failed");                    // Likewise.
  EXPECT_DEATH(pool->Copy(2, 0), "check failed");                    // From nobody's.
  EXPECT_DEATH((void)pool->Share(lease->blocks()), "check failed");  // One of them is still filled.
  EXPECT_DEATH(pool->Keep(0), "check failed");                       // Likewise.
  EXPECT_DEATH(pool->Evict(1), "check failed");                      // Not idle.
  EXPECT_DEATH(pool->StopKeeping(1), "check failed");                // Not kept.
}

}  // namespace
}  // namespace kvern
