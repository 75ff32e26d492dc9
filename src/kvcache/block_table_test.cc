#include "kvcache/block_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
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

TEST(BlockTableTest, AForkSharesFullBlocksAndCopiesTheLastPartialOne) {
  const auto pool = PoolOf(5);
  BlockTable table(*pool), fork(*pool);
  ASSERT_TRUE(table.Reserve(64).ok());
  table.Commit(40);
  uint8_t* const base = pool->view().base;
  const uint64_t num_bytes = pool->layout().block_bytes();
  std::fill_n(base + 2 * num_bytes, num_bytes, uint8_t{77});

  fork.Fork(table);

  EXPECT_THAT(fork.blocks(), ElementsAre(0u, 1u, 4u));
  EXPECT_EQ(fork.num_tokens(), 40u);
  EXPECT_EQ(pool->num_leases(1), 2u);
  EXPECT_EQ(pool->num_leases(2), 1u);
  EXPECT_EQ(pool->state(4), BlockState::kFilling);
  EXPECT_EQ(base[4 * num_bytes], 77);
  EXPECT_EQ(base[5 * num_bytes - 1], 77);
}

TEST(BlockTableTest, AForkOfWholeBlocksTakesNoneOfItsOwn) {
  const auto pool = PoolOf(2);
  BlockTable table(*pool), fork(*pool);
  ASSERT_TRUE(table.Reserve(32).ok());
  table.Commit(32);

  fork.Fork(table);
  table.Release();

  EXPECT_THAT(fork.blocks(), ElementsAre(0u, 1u));
  EXPECT_EQ(pool->Stats().full_blocks, 2u);
  EXPECT_EQ(fork.Reserve(33).code(), StatusCode::kResourceExhausted);
}

TEST(BlockTableTest, TakeOverMovesEverything) {
  const auto pool = PoolOf(4);
  BlockTable table(*pool), next(*pool);
  ASSERT_TRUE(table.Reserve(40).ok());
  table.Commit(20);

  next.TakeOver(table);

  EXPECT_THAT(table.blocks(), IsEmpty());
  EXPECT_EQ(table.num_tokens(), 0u);
  EXPECT_THAT(next.blocks(), ElementsAre(0u, 1u, 2u));
  EXPECT_EQ(next.num_tokens(), 20u);
  EXPECT_EQ(pool->Stats().free_blocks, 1u);
}

// What a pool with tables must look like, said without any of their code: each sequence lists the names of its blocks,
// a name that two sequences list is a shared block, and a block is full when its sequence's tokens reach its end.
struct NaiveSequence {
  std::unique_ptr<BlockTable> table;
  uint64_t num_tokens = 0;
  std::vector<int> names;
};

class NaiveCache {
 public:
  uint64_t num_used() const {
    std::set<int> names;
    for (const auto& [id, sequence] : sequences) names.insert(sequence.names.begin(), sequence.names.end());
    return names.size();
  }
  bool HasSharedBlocks(const NaiveSequence& sequence) const {
    for (const auto& [id, other] : sequences) {
      if (&other != &sequence && !other.names.empty() && !sequence.names.empty() &&
          other.names.front() == sequence.names.front()) {
        return true;
      }
    }
    return false;
  }
  int NewName() { return next_name_++; }

  std::map<int, NaiveSequence> sequences;

 private:
  int next_name_ = 0;
};

void ExpectAgrees(const NaiveCache& naive, const BlockPool& pool) {
  std::map<int, BlockIndex> blocks;
  std::map<int, uint32_t> num_leases;
  std::map<int, bool> is_full;
  for (const auto& [id, s] : naive.sequences) {
    ASSERT_EQ(s.table->num_tokens(), s.num_tokens);
    ASSERT_EQ(s.table->blocks().size(), s.names.size());
    for (uint64_t i = 0; i < s.names.size(); ++i) {
      const auto [it, is_new] = blocks.emplace(s.names[i], s.table->blocks()[i]);
      ASSERT_EQ(it->second, s.table->blocks()[i]);
      ++num_leases[s.names[i]];
      is_full[s.names[i]] = (i + 1) * kBlockSize <= s.num_tokens;
    }
  }
  std::set<BlockIndex> used;
  uint64_t num_full = 0;
  for (const auto& [name, block] : blocks) {
    ASSERT_TRUE(used.insert(block).second) << "block " << block << " has two names";
    ASSERT_EQ(pool.num_leases(block), num_leases[name]);
    ASSERT_EQ(pool.state(block), is_full[name] ? BlockState::kFull : BlockState::kFilling);
    num_full += is_full[name] ? 1 : 0;
  }
  const CacheStats stats = pool.Stats();
  ASSERT_EQ(stats.free_blocks, stats.total_blocks - used.size());
  ASSERT_EQ(stats.full_blocks, num_full);
  ASSERT_EQ(stats.filling_blocks, used.size() - num_full);
}

TEST(BlockTableTest, RandomOperationsOnManySequencesAgreeWithANaiveMap) {
  constexpr uint64_t kBlocks = 23;
  const auto pool = PoolOf(kBlocks);
  NaiveCache naive;
  std::mt19937 random(7);
  uint64_t peak = 0;
  int next_id = 0;

  for (int step = 0; step < 20000; ++step) {
    const uint32_t operation = random() % 11;
    const uint64_t num_free = kBlocks - naive.num_used();
    if (naive.sequences.size() < 6 && operation == 0) {
      naive.sequences[next_id++].table = std::make_unique<BlockTable>(*pool);
    }
    if (naive.sequences.empty()) continue;
    auto it = std::next(naive.sequences.begin(), static_cast<long>(random() % naive.sequences.size()));
    NaiveSequence& sequence = it->second;
    if (operation <= 3) {
      const uint64_t wanted = sequence.num_tokens + random() % 60;
      const uint64_t needed = (wanted + kBlockSize - 1) / kBlockSize;
      const uint64_t missing = needed > sequence.names.size() ? needed - sequence.names.size() : 0;
      ASSERT_EQ(sequence.table->Reserve(wanted).ok(), missing <= num_free);
      for (uint64_t i = 0; missing <= num_free && i < missing; ++i) sequence.names.push_back(naive.NewName());
    } else if (operation <= 7) {
      const uint64_t room = sequence.names.size() * kBlockSize - sequence.num_tokens;
      const uint64_t count = room == 0 ? 0 : random() % (room + 1);
      sequence.table->Commit(count);
      sequence.num_tokens += count;
    } else if (operation == 8) {
      if (random() % 2 == 0 && !naive.HasSharedBlocks(sequence)) {
        sequence.table->Rewind();
      } else {
        sequence.table->Release();
        sequence.names.clear();
      }
      sequence.num_tokens = 0;
    } else if (operation == 9) {
      if (random() % 3 == 0) naive.sequences.erase(it);
    } else if (naive.sequences.size() < 6 && num_free > 0) {
      NaiveSequence& fork = naive.sequences[next_id++];
      fork.table = std::make_unique<BlockTable>(*pool);
      fork.table->Fork(*sequence.table);
      fork.num_tokens = sequence.num_tokens;
      const uint64_t num_full = sequence.num_tokens / kBlockSize;
      fork.names.assign(sequence.names.begin(), sequence.names.begin() + static_cast<long>(num_full));
      if (sequence.num_tokens % kBlockSize != 0) fork.names.push_back(naive.NewName());
    }
    peak = std::max(peak, naive.num_used());

    ASSERT_NO_FATAL_FAILURE(ExpectAgrees(naive, *pool));
    ASSERT_EQ(pool->Stats().peak_used_blocks, peak);
  }
}

}  // namespace
}  // namespace kvern
