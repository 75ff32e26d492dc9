#include "kvcache/block_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <random>
#include <set>
#include <vector>

namespace kvern {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr uint32_t kBlockSize = 16;

std::unique_ptr<BlockPool> PoolOf(uint64_t num_blocks) {
  const BlockLayout layout = BlockLayout::Create({1, 1, 16}, kBlockSize, KvType::kF16, KvType::kF16).value();
  return BlockPool::Create(layout, num_blocks * layout.block_bytes(), HeapAllocator()).value();
}

TEST(BlockTableTest, ReserveLeasesOnlyWhatIsMissing) {
  const auto pool = PoolOf(4);
  BlockTable table(*pool);

  ASSERT_TRUE(table.Reserve(17).ok());
  ASSERT_TRUE(table.Reserve(32).ok());
  ASSERT_TRUE(table.Reserve(1).ok());

  EXPECT_THAT(table.blocks(), ElementsAre(0u, 1u));
  EXPECT_EQ(table.capacity(), 32u);
  EXPECT_EQ(table.num_tokens(), 0u);
}

TEST(BlockTableTest, ReserveBeyondThePoolChangesNothingAndSaysTheBytes) {
  const auto pool = PoolOf(2);
  BlockTable table(*pool);
  ASSERT_TRUE(table.Reserve(16).ok());

  const Status status = table.Reserve(49);

  EXPECT_EQ(status.code(), StatusCode::kResourceExhausted);
  EXPECT_THAT(status.message(), HasSubstr("3072 bytes more"));
  EXPECT_THAT(status.message(), HasSubstr("1024 bytes are free"));
  EXPECT_EQ(table.capacity(), 16u);
  EXPECT_EQ(table.Reserve(~uint64_t{0}).code(), StatusCode::kResourceExhausted);
}

TEST(BlockTableTest, BlocksBecomeFullWhenTheirLastSlotIsCommitted) {
  const auto pool = PoolOf(3);
  BlockTable table(*pool);
  ASSERT_TRUE(table.Reserve(40).ok());

  table.Commit(15);
  EXPECT_EQ(pool->state(0), BlockState::kFilling);
  table.Commit(1);
  EXPECT_EQ(pool->state(0), BlockState::kFull);
  table.Commit(24);

  EXPECT_EQ(pool->state(1), BlockState::kFull);
  EXPECT_EQ(pool->state(2), BlockState::kFilling);
  EXPECT_EQ(table.num_tokens(), 40u);
}

TEST(BlockTableTest, RewindKeepsTheRoomAndReopensFullBlocks) {
  const auto pool = PoolOf(2);
  BlockTable table(*pool);
  ASSERT_TRUE(table.Reserve(20).ok());
  table.Commit(20);

  table.Rewind();

  EXPECT_EQ(table.num_tokens(), 0u);
  EXPECT_EQ(table.capacity(), 32u);
  EXPECT_EQ(pool->Stats().filling_blocks, 2u);
  table.Commit(16);
  EXPECT_EQ(pool->Stats().full_blocks, 1u);
}

TEST(BlockTableTest, ReleaseGivesEverythingBack) {
  const auto pool = PoolOf(2);
  BlockTable table(*pool);
  ASSERT_TRUE(table.Reserve(20).ok());
  table.Commit(18);

  table.Release();

  EXPECT_THAT(table.blocks(), IsEmpty());
  EXPECT_EQ(table.num_tokens(), 0u);
  EXPECT_EQ(pool->Stats().free_blocks, 2u);
}

TEST(BlockTableDeathTest, CommitBeyondTheRoomEndsTheProcess) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto pool = PoolOf(1);
  BlockTable table(*pool);
  ASSERT_TRUE(table.Reserve(16).ok());

  EXPECT_DEATH(table.Commit(17), "check failed");
}

// What a pool with tables must look like, said without any of their code: who holds which block, and how many tokens.
struct NaiveSequence {
  std::unique_ptr<BlockTable> table;
  uint64_t num_tokens = 0;
  uint64_t num_blocks = 0;
};

TEST(BlockTableTest, RandomOperationsOnManySequencesAgreeWithANaiveMap) {
  constexpr uint64_t kBlocks = 23;
  const auto pool = PoolOf(kBlocks);
  std::map<int, NaiveSequence> sequences;
  std::mt19937 random(7);
  uint64_t num_free = kBlocks;
  uint64_t peak = 0;
  int next_id = 0;

  for (int step = 0; step < 20000; ++step) {
    const uint32_t operation = random() % 10;
    if (sequences.size() < 6 && operation == 0) {
      sequences[next_id++].table = std::make_unique<BlockTable>(*pool);
    }
    if (sequences.empty()) continue;
    auto it = std::next(sequences.begin(), static_cast<long>(random() % sequences.size()));
    NaiveSequence& sequence = it->second;
    if (operation <= 3) {
      const uint64_t wanted = sequence.num_tokens + random() % 60;
      const uint64_t needed = (wanted + kBlockSize - 1) / kBlockSize;
      const uint64_t missing = needed > sequence.num_blocks ? needed - sequence.num_blocks : 0;
      const bool fits = missing <= num_free;
      ASSERT_EQ(sequence.table->Reserve(wanted).ok(), fits);
      if (fits) {
        sequence.num_blocks += missing;
        num_free -= missing;
      }
    } else if (operation <= 7) {
      const uint64_t room = sequence.num_blocks * kBlockSize - sequence.num_tokens;
      const uint64_t count = room == 0 ? 0 : random() % (room + 1);
      sequence.table->Commit(count);
      sequence.num_tokens += count;
    } else if (operation == 8) {
      if (random() % 2 == 0) {
        sequence.table->Rewind();
      } else {
        sequence.table->Release();
        num_free += sequence.num_blocks;
        sequence.num_blocks = 0;
      }
      sequence.num_tokens = 0;
    } else if (random() % 3 == 0) {
      num_free += sequence.num_blocks;
      sequences.erase(it);
    }
    peak = std::max(peak, kBlocks - num_free);

    std::set<BlockIndex> held;
    uint64_t num_full = 0;
    for (const auto& [id, s] : sequences) {
      ASSERT_EQ(s.table->num_tokens(), s.num_tokens);
      ASSERT_EQ(s.table->blocks().size(), s.num_blocks);
      for (uint64_t i = 0; i < s.num_blocks; ++i) {
        const BlockIndex block = s.table->blocks()[i];
        const bool is_full = (i + 1) * kBlockSize <= s.num_tokens;
        num_full += is_full ? 1 : 0;
        ASSERT_TRUE(held.insert(block).second) << "block " << block << " has two owners";
        ASSERT_EQ(pool->state(block), is_full ? BlockState::kFull : BlockState::kFilling);
      }
    }
    const CacheStats stats = pool->Stats();
    ASSERT_EQ(stats.free_blocks, num_free);
    ASSERT_EQ(stats.full_blocks, num_full);
    ASSERT_EQ(stats.filling_blocks, kBlocks - num_free - num_full);
    ASSERT_EQ(stats.peak_used_blocks, peak);
  }
}

}  // namespace
}  // namespace kvern
