// What every placement must do, run over all registered ones: tokens stand where the table says, for as long as a row
// can see them, in no more blocks than were promised.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "kvcache/placement/placement_registry.h"

namespace kvern {
namespace {

using ::testing::HasSubstr;

constexpr uint32_t kBlockSize = 16;

const BlockLayout& Layout() {
  static const BlockLayout kLayout = BlockLayout::Create({1, 1, 16}, kBlockSize, KvType::kF16, KvType::kF16).value();
  return kLayout;
}

std::unique_ptr<BlockPool> PoolOf(uint64_t num_blocks) {
  return BlockPool::Create(Layout(), num_blocks * Layout().block_bytes(), HeapAllocator()).value();
}

uint64_t MostBlocks(const SequenceCourse& course, const Placement& placement) {
  return placement.MostBlocks(Layout(), course);
}

class PlacementTest : public ::testing::TestWithParam<const Placement*> {
 protected:
  const Placement& placement() const { return *GetParam(); }
  bool is_ring() const { return placement().Name() == "ring"; }
  // A course in a window where the placement needs one.
  SequenceCourse Course(uint64_t max_tokens, uint32_t max_step_tokens, uint32_t window) const {
    return {.max_tokens = max_tokens,
            .max_step_tokens = max_step_tokens,
            .span = {.window = is_ring() && window == 0 ? static_cast<uint32_t>(max_tokens) : window}};
  }
};

// A sequence as it should be: the stamp of every token.
struct NaiveSequence {
  std::unique_ptr<BlockTable> table;
  std::vector<uint64_t> stamps;
};

class Checker {
 public:
  explicit Checker(BlockPool& pool) : pool_(pool) {}

  // Appends `count` tokens as a step does: room, bytes, commit.
  Status Append(NaiveSequence& sequence, uint64_t count) {
    BlockTable& table = *sequence.table;
    KVERN_RETURN_IF_ERROR(table.Reserve(sequence.stamps.size() + count));
    for (uint64_t i = 0; i < count; ++i) {
      const uint64_t position = sequence.stamps.size();
      sequence.stamps.push_back(next_stamp_++);
      std::memcpy(Slot(table, position), &sequence.stamps.back(), sizeof(uint64_t));
    }
    table.Commit(count);
    return Status::Ok();
  }

  // Every token that the next row sees can be read back.
  ::testing::AssertionResult ReadsBack(const NaiveSequence& sequence) {
    const BlockTable& table = *sequence.table;
    if (table.num_tokens() != sequence.stamps.size()) {
      return ::testing::AssertionFailure() << table.num_tokens() << " tokens, not " << sequence.stamps.size();
    }
    const uint64_t window_begin = table.course().WindowBegin(sequence.stamps.size());
    for (uint64_t position = 0; position < sequence.stamps.size(); ++position) {
      const auto& pinned = table.course().span.pinned;
      const bool is_pinned =
          std::ranges::any_of(pinned, [&](const PositionRange& r) { return position >= r.begin && position < r.end; });
      if (position < window_begin && !is_pinned) continue;
      if (table.blocks()[position / kBlockSize] == kNoBlock) {
        return ::testing::AssertionFailure() << "no block at position " << position << " of " << sequence.stamps.size();
      }
      uint64_t stamp = 0;
      std::memcpy(&stamp, Slot(table, position), sizeof(stamp));
      if (stamp != sequence.stamps[position]) {
        return ::testing::AssertionFailure() << "position " << position << " of " << sequence.stamps.size() << " holds "
                                             << stamp << ", not " << sequence.stamps[position];
      }
    }
    return ::testing::AssertionSuccess();
  }

 private:
  uint8_t* Slot(const BlockTable& table, uint64_t position) {
    const uint64_t slot_bytes = Layout().block_bytes() / kBlockSize;
    return pool_.BlockBytes(table.blocks()[position / kBlockSize]) + position % kBlockSize * slot_bytes;
  }

  BlockPool& pool_;
  uint64_t next_stamp_ = 1;
};

TEST_P(PlacementTest, IsFoundByItsName) {
  EXPECT_EQ(FindPlacement(placement().Name()).value(), &placement());
  EXPECT_THAT(FindPlacement("heap").status().message(), HasSubstr(std::string(placement().Name())));
}

TEST_P(PlacementTest, TokensThatComeOneByOneHoldWhatWasForetold) {
  for (const uint32_t window : {0u, 16u, 40u, 100u}) {
    const std::vector<PositionRange> pinned = {{0, 4}, {50, 70}};
    for (const bool is_pinned : {false, true}) {
      SequenceCourse course = Course(/*max_tokens=*/300, /*max_step_tokens=*/1, window);
      if (is_pinned && window > 0) course.span.pinned = pinned;
      const auto pool = PoolOf(100);
      Checker checker(*pool);
      NaiveSequence sequence = {placement().MakeTable(*pool, course), {}};

      for (uint64_t n = 1; n <= 300; ++n) {
        ASSERT_TRUE(checker.Append(sequence, 1).ok());
        ASSERT_EQ(sequence.table->num_held(), placement().HeldBlocks(Layout(), course, n))
            << n << ", window " << window;
      }

      EXPECT_TRUE(checker.ReadsBack(sequence));
      EXPECT_LE(pool->Stats().peak_used_blocks, MostBlocks(course, placement()));
    }
  }
}

TEST_P(PlacementTest, AJumpIsOneStep) {
  SequenceCourse course = Course(/*max_tokens=*/20'000, /*max_step_tokens=*/20'000, 0);
  const auto pool = PoolOf(MostBlocks(course, placement()));
  Checker checker(*pool);
  NaiveSequence sequence = {placement().MakeTable(*pool, course), {}};
  ASSERT_TRUE(checker.Append(sequence, 1).ok());

  ASSERT_TRUE(checker.Append(sequence, 19'999).ok());

  EXPECT_TRUE(checker.ReadsBack(sequence));
  EXPECT_LE(pool->Stats().copied_bytes, Layout().block_bytes());
  EXPECT_LE(pool->Stats().peak_used_blocks, Layout().BlocksFor(20'000) + 1);
}

TEST_P(PlacementTest, TwentyThousandAppendsCopyLittle) {
  const SequenceCourse course = Course(/*max_tokens=*/1 << 20, /*max_step_tokens=*/1, is_ring() ? 4096 : 0);
  const auto pool = PoolOf(std::min<uint64_t>(MostBlocks(course, placement()), 1 << 17));
  Checker checker(*pool);
  NaiveSequence sequence = {placement().MakeTable(*pool, course), {}};

  for (int i = 0; i < 20'000; ++i) ASSERT_TRUE(checker.Append(sequence, 1).ok());

  EXPECT_TRUE(checker.ReadsBack(sequence));
  EXPECT_LE(static_cast<double>(pool->Stats().copied_bytes),
            2.2 * static_cast<double>(Layout().BlocksFor(20'000) * Layout().block_bytes()));
}

TEST_P(PlacementTest, MoreThanTheCourseIsRefusedWithTheNumbers) {
  const auto pool = PoolOf(100);
  const auto table = placement().MakeTable(*pool, Course(/*max_tokens=*/200, /*max_step_tokens=*/200, 0));

  const Status status = table->Reserve(201);

  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(status.message(), HasSubstr("201 tokens"));
  EXPECT_THAT(status.message(), HasSubstr("up to 200"));
  EXPECT_EQ(pool->free_blocks(), 100u);
}

TEST_P(PlacementTest, MoreThanThePoolIsRefusedWithTheBytesAndChangesNothing) {
  const auto pool = PoolOf(3);
  const auto other = pool->Lease(1);
  const auto table = placement().MakeTable(*pool, Course(/*max_tokens=*/64, /*max_step_tokens=*/64, 0));

  const Status status = table->Reserve(64);

  EXPECT_EQ(status.code(), StatusCode::kResourceExhausted);
  EXPECT_THAT(status.message(), HasSubstr(std::to_string(4 * Layout().block_bytes()) + " bytes more"));
  EXPECT_THAT(status.message(), HasSubstr(std::to_string(2 * Layout().block_bytes()) + " bytes are free"));
  EXPECT_EQ(table->num_held(), 0u);
  EXPECT_EQ(pool->free_blocks(), 2u);
}

TEST_P(PlacementTest, AForkGoesOnAlone) {
  const SequenceCourse course = Course(/*max_tokens=*/200, /*max_step_tokens=*/200, 0);
  const auto pool = PoolOf(100);
  Checker checker(*pool);
  NaiveSequence first = {placement().MakeTable(*pool, course), {}};
  NaiveSequence fork = {placement().MakeTable(*pool, course), {}};
  ASSERT_TRUE(checker.Append(first, 40).ok());

  ASSERT_TRUE(fork.table->Fork(*first.table).ok());
  fork.stamps = first.stamps;
  ASSERT_TRUE(checker.Append(first, 30).ok());
  ASSERT_TRUE(checker.Append(fork, 50).ok());

  EXPECT_TRUE(checker.ReadsBack(first));
  EXPECT_TRUE(checker.ReadsBack(fork));
  first.table->Release();
  EXPECT_TRUE(checker.ReadsBack(fork));
}

TEST_P(PlacementTest, ATruncatedSequenceIsWrittenAgain) {
  const SequenceCourse course = Course(/*max_tokens=*/200, /*max_step_tokens=*/200, 0);
  const auto pool = PoolOf(100);
  Checker checker(*pool);
  NaiveSequence sequence = {placement().MakeTable(*pool, course), {}};
  ASSERT_TRUE(checker.Append(sequence, 100).ok());

  for (const uint64_t n : {99u, 64u, 63u, 5u, 0u}) {
    ASSERT_TRUE(sequence.table->Truncate(n).ok());
    sequence.stamps.resize(n);
    EXPECT_TRUE(checker.ReadsBack(sequence));
    ASSERT_TRUE(checker.Append(sequence, 150 - n).ok());
    EXPECT_TRUE(checker.ReadsBack(sequence));
    EXPECT_EQ(pool->Stats().full_blocks, 9u);
  }
}

// Sequences of one course come, grow by steps and jumps, fork, are cut short and end in any order.
TEST_P(PlacementTest, RandomOperationsAgreeWithANaiveMap) {
  const std::vector<PositionRange> pinned = {{0, 3}, {30, 35}, {90, 130}};
  for (uint32_t seed = 0; seed < 24; ++seed) {
    std::mt19937 random(seed);
    const uint32_t windows[] = {0, 16, 23, 64, 100};
    SequenceCourse course =
        Course(/*max_tokens=*/100 + random() % 400, /*max_step_tokens=*/1 + random() % 70, windows[seed % 5]);
    if (course.span.window > 0 && seed % 2 == 1) course.span.pinned = pinned;
    const uint64_t most = MostBlocks(course, placement());
    const auto pool = PoolOf(most * 3);
    Checker checker(*pool);
    std::map<int, NaiveSequence> sequences;
    int next_id = 0;

    for (int step = 0; step < 1500; ++step) {
      const uint32_t operation = random() % 12;
      if (sequences.size() < 5 && operation == 0) {
        sequences[next_id++] = {placement().MakeTable(*pool, course), {}};
      }
      if (sequences.empty()) continue;
      auto it = std::next(sequences.begin(), static_cast<long>(random() % sequences.size()));
      NaiveSequence& sequence = it->second;
      BlockTable& table = *sequence.table;
      const uint64_t n = sequence.stamps.size();
      if (operation <= 7) {
        const uint64_t most_now = std::min<uint64_t>(course.max_step_tokens, course.max_tokens - n);
        const uint64_t count = operation == 1 ? most_now : random() % (most_now + 1);
        const uint64_t missing = table.NumMissing(n + count);
        const uint64_t free = pool->free_blocks();
        const Status status = checker.Append(sequence, count);
        ASSERT_EQ(status.ok(), missing <= free) << status.ToString();
        if (!status.ok()) {
          ASSERT_EQ(status.code(), StatusCode::kResourceExhausted);
          ASSERT_EQ(pool->free_blocks(), free);
        }
      } else if (operation == 8) {
        const uint64_t cut = random() % 4 == 0 ? 0 : n - random() % (n + 1);
        const Status status = table.Truncate(cut);
        if (status.ok()) sequence.stamps.resize(cut);
        ASSERT_TRUE(status.ok() || cut > 0);
        ASSERT_TRUE(status.ok() || course.span.window > 0 || pool->free_blocks() == 0) << status.ToString();
      } else if (operation == 9) {
        table.Release();
        sequence.stamps.clear();
        ASSERT_EQ(table.num_held(), 0u);
      } else if (operation == 10) {
        sequences.erase(it);
      } else if (sequences.size() < 5) {
        NaiveSequence fork = {placement().MakeTable(*pool, course), {}};
        const Status status = fork.table->Fork(table);
        if (status.ok()) fork.stamps = sequence.stamps;
        ASSERT_TRUE(status.ok() || status.code() == StatusCode::kResourceExhausted);
        sequences[next_id++] = std::move(fork);
      }

      for (const auto& [id, s] : sequences) {
        ASSERT_TRUE(checker.ReadsBack(s)) << placement().Name() << ", seed " << seed << ", step " << step;
        ASSERT_LE(s.table->num_held(), most);
      }
    }
    sequences.clear();
    EXPECT_EQ(pool->free_blocks(), most * 3);
  }
}

// The bytes of a table are taken out of it and put into another.
TEST_P(PlacementTest, ARestoredTableHoldsWhatItWasGiven) {
  if (!placement().leases_on_demand()) GTEST_SKIP() << placement().Name() << " does not restore";
  const std::vector<PositionRange> pinned = {{0, 3}, {30, 35}, {90, 130}};
  for (uint64_t n = 1; n < 300; n += 7) {
    for (const uint32_t window : {0u, 16u, 50u}) {
      SequenceCourse course = Course(/*max_tokens=*/400, /*max_step_tokens=*/64, window);
      if (window > 0) course.span.pinned = pinned;
      const auto pool = PoolOf(100);
      Checker checker(*pool);
      NaiveSequence sequence = {placement().MakeTable(*pool, course), {}};
      while (sequence.stamps.size() < n) {
        ASSERT_TRUE(checker.Append(sequence, std::min<uint64_t>(64, n - sequence.stamps.size())).ok());
      }
      NaiveSequence restored = {placement().MakeTable(*pool, course), sequence.stamps};

      ASSERT_TRUE(restored.table->Restore(n).ok());
      for (size_t i = 0; i < restored.table->blocks().size(); ++i) {
        const BlockIndex from = sequence.table->blocks()[i], to = restored.table->blocks()[i];
        ASSERT_EQ(from == kNoBlock, to == kNoBlock) << i;
        if (from == kNoBlock) continue;
        ASSERT_EQ(pool->state(from), pool->state(to));
        std::memcpy(pool->BlockBytes(to), pool->BlockBytes(from), Layout().block_bytes());
      }
      sequence.table->Release();

      EXPECT_TRUE(checker.ReadsBack(restored));
      EXPECT_EQ(restored.table->num_held(), placement().HeldBlocks(Layout(), course, n));
      ASSERT_TRUE(checker.Append(restored, 60).ok());
      EXPECT_TRUE(checker.ReadsBack(restored));
    }
  }
}

// A table begins with the blocks of another, as those of a prefix that was found.
TEST_P(PlacementTest, AnAdoptedTableGoesOnFromTheBlocksOfAnother) {
  const std::vector<PositionRange> pinned = {{0, 3}, {30, 35}};
  for (const uint64_t n : {1u, 15u, 16u, 17u, 100u, 128u, 200u}) {
    for (const uint32_t window : {0u, 16u, 50u}) {
      SequenceCourse course = Course(/*max_tokens=*/400, /*max_step_tokens=*/400, window);
      if (window > 0) course.span.pinned = pinned;
      const auto pool = PoolOf(200);
      Checker checker(*pool);
      NaiveSequence sequence = {placement().MakeTable(*pool, course), {}};
      ASSERT_TRUE(checker.Append(sequence, n).ok());
      NaiveSequence adopted = {placement().MakeTable(*pool, course), sequence.stamps};
      const auto cached = sequence.table->blocks().first(Layout().BlocksFor(n));

      const Status status = adopted.table->Adopt(cached, n);

      if (!placement().reuses_blocks()) {
        EXPECT_EQ(status.code(), StatusCode::kUnsupported);
        continue;
      }
      ASSERT_TRUE(status.ok()) << status.ToString();
      EXPECT_TRUE(checker.ReadsBack(adopted));
      const bool shares = placement().shares_blocks();
      for (size_t i = 0; i < n / kBlockSize; ++i) {
        if (cached[i] == kNoBlock) continue;
        EXPECT_EQ(adopted.table->blocks()[i] == cached[i], shares);
      }
      ASSERT_TRUE(checker.Append(adopted, 60).ok());
      ASSERT_TRUE(checker.Append(sequence, 30).ok());
      EXPECT_TRUE(checker.ReadsBack(adopted));
      EXPECT_TRUE(checker.ReadsBack(sequence));
    }
  }
}

TEST_P(PlacementTest, AnAdoptedTableThatHasNoRoomStaysEmpty) {
  if (!placement().reuses_blocks()) GTEST_SKIP() << placement().Name() << " does not begin with blocks of others";
  const SequenceCourse course = Course(/*max_tokens=*/40, /*max_step_tokens=*/40, 0);
  const auto pool = PoolOf(3);
  Checker checker(*pool);
  NaiveSequence sequence = {placement().MakeTable(*pool, course), {}};
  ASSERT_TRUE(checker.Append(sequence, 40).ok());
  const auto adopted = placement().MakeTable(*pool, course);

  EXPECT_EQ(adopted->Adopt(sequence.table->blocks(), 40).code(), StatusCode::kResourceExhausted);

  EXPECT_EQ(adopted->num_tokens(), 0u);
  EXPECT_EQ(adopted->num_held(), 0u);
}

TEST_P(PlacementTest, WhatIsPromisedIsEnoughForAnyCourse) {
  for (uint32_t seed = 0; seed < 200; ++seed) {
    std::mt19937 random(seed);
    const SequenceCourse course = Course(/*max_tokens=*/1 + random() % 300, /*max_step_tokens=*/1 + random() % 100,
                                         seed % 2 == 0 ? 0 : 1 + random() % 120);
    const auto pool = PoolOf(std::max<uint64_t>(1, MostBlocks(course, placement())));
    Checker checker(*pool);
    NaiveSequence sequence = {placement().MakeTable(*pool, course), {}};

    while (sequence.stamps.size() < course.max_tokens) {
      const uint64_t left = course.max_tokens - sequence.stamps.size();
      const uint64_t count = std::min<uint64_t>(left, 1 + random() % course.max_step_tokens);
      const Status status = checker.Append(sequence, count);
      ASSERT_TRUE(status.ok()) << status.ToString() << ", seed " << seed;
      ASSERT_TRUE(checker.ReadsBack(sequence));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, PlacementTest, ::testing::ValuesIn(AllPlacements().begin(), AllPlacements().end()),
                         [](const auto& param) { return std::string(param.param->Name()); });

}  // namespace
}  // namespace kvern
