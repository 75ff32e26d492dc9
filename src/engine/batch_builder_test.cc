#include "engine/batch_builder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>
#include <memory>
#include <vector>

namespace kvern {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr uint32_t kBlockSize = 16;

class BatchBuilderTest : public ::testing::Test {
 protected:
  SequenceCache& NewTable(uint64_t num_tokens) {
    SequenceCache& table = tables_.emplace_back(*cache_, 1000);
    EXPECT_TRUE(table.Reserve(num_tokens).ok());
    table.Commit(num_tokens);
    return table;
  }
  SequenceCache& ForkOf(const SequenceCache& table) {
    SequenceCache& fork = tables_.emplace_back(*cache_, 1000);
    EXPECT_TRUE(fork.Fork(table).ok());
    return fork;
  }
  void AddDecode(SequenceCache& table) { builder_.Add(table, std::vector<TokenId>{1}, 1); }
  // {first sequence, sequences, tokens} of each shared prefix.
  std::vector<std::vector<uint32_t>> SharedPrefixes() {
    std::vector<std::vector<uint32_t>> found;
    for (const SharedPrefix& prefix : builder_.Build().shared_prefixes) {
      found.push_back({prefix.first_sequence, prefix.num_sequences, prefix.num_tokens});
    }
    return found;
  }

  static KvCacheSpec Spec(uint32_t window) {
    KvCacheSpec spec;
    spec.placement = &PagedPlacement();
    const BlockLayout layout = BlockLayout::Create({1, 1, 16}, kBlockSize, KvType::kF16, KvType::kF16).value();
    spec.groups.push_back({.layout = layout, .window = window, .num_blocks = 100});
    return spec;
  }

  std::unique_ptr<KvCache> cache_ = KvCache::Create(Spec(0), HeapAllocator()).value();
  std::deque<SequenceCache> tables_;
  BatchBuilder builder_{*cache_};
};

TEST(VisiblePairsTest, AgreeWithCountingOneByOne) {
  const std::vector<PositionRange> pinned = {{0, 3}, {7, 9}, {20, 40}};
  for (const uint32_t window : {0u, 1u, 2u, 5u, 16u, 33u}) {
    for (const bool is_pinned : {false, true}) {
      AttentionSpan span = {.window = window};
      if (window > 0 && is_pinned) span.pinned = pinned;
      for (uint64_t first = 0; first < 60; first += 3) {
        for (uint64_t count = 0; count < 50; count += 7) {
          uint64_t expected = 0;
          for (uint64_t p = first; p < first + count; ++p) {
            for (uint64_t t = 0; t <= p; ++t) {
              bool is_seen = window == 0 || t + window > p;
              for (const PositionRange& range : span.pinned) is_seen = is_seen || (t >= range.begin && t < range.end);
              expected += is_seen ? 1 : 0;
            }
          }
          ASSERT_EQ(VisiblePairs(span, first, count), expected) << window << ", " << first << " + " << count;
        }
      }
    }
  }
}

TEST_F(BatchBuilderTest, RowsStandInTheOrderInWhichTheyWereAdded) {
  SequenceCache& decoding = NewTable(20);
  SequenceCache& prefilling = NewTable(0);

  builder_.Add(decoding, std::vector<TokenId>{7}, 1);
  builder_.Add(prefilling, std::vector<TokenId>{8, 9, 10}, 2);
  const ForwardBatch batch = builder_.Build();

  EXPECT_THAT(batch.tokens, ElementsAre(7, 8, 9, 10));
  EXPECT_THAT(batch.logit_rows, ElementsAre(0, 2, 3));
  ASSERT_EQ(batch.sequences.size(), 2u);
  EXPECT_EQ(batch.sequences[0].first_position, 20u);
  EXPECT_EQ(batch.sequences[1].first_row, 1u);
  EXPECT_EQ(batch.sequences[1].num_rows, 3u);
  EXPECT_EQ(builder_.NumProducts(0), 21u);
  EXPECT_EQ(builder_.TotalProducts(), 21u + 1 + 2 + 3);
}

TEST_F(BatchBuilderTest, NeighboursWhoseTablesBeginWithTheSameBlocksShareThem) {
  SequenceCache& alone = NewTable(50);
  SequenceCache& first = NewTable(40);
  SequenceCache& second = ForkOf(first);
  SequenceCache& third = ForkOf(first);
  SequenceCache& other = NewTable(16);
  SequenceCache& fork_of_other = ForkOf(other);

  for (SequenceCache* table : {&alone, &first, &second, &third, &other, &fork_of_other}) AddDecode(*table);

  EXPECT_THAT(SharedPrefixes(), ElementsAre(ElementsAre(1, 3, 32), ElementsAre(4, 2, 16)));
}

TEST_F(BatchBuilderTest, OneThatSharesLessDoesNotShortenAPrefix) {
  SequenceCache& early = NewTable(20);
  SequenceCache& first = ForkOf(early);
  ASSERT_TRUE(first.Reserve(50).ok());
  first.Commit(30);
  SequenceCache& second = ForkOf(first);

  for (SequenceCache* table : {&first, &second, &early}) AddDecode(*table);

  EXPECT_THAT(SharedPrefixes(), ElementsAre(ElementsAre(0, 2, 48)));
}

TEST_F(BatchBuilderTest, OnlySequencesOfOneRowShare) {
  SequenceCache& first = NewTable(32);
  SequenceCache& second = ForkOf(first);

  AddDecode(first);
  builder_.Add(second, std::vector<TokenId>{1, 2}, 1);

  EXPECT_THAT(SharedPrefixes(), IsEmpty());
}

TEST_F(BatchBuilderTest, PromptsShorterThanABlockShareNothing) {
  SequenceCache& first = NewTable(15);
  SequenceCache& second = ForkOf(first);

  AddDecode(first);
  AddDecode(second);

  EXPECT_THAT(SharedPrefixes(), IsEmpty());
}

TEST_F(BatchBuilderTest, ClearForgetsTheStepBefore) {
  SequenceCache& first = NewTable(32);
  AddDecode(first);
  AddDecode(ForkOf(first));
  ASSERT_EQ(SharedPrefixes().size(), 1u);

  builder_.Clear();
  AddDecode(NewTable(3));

  EXPECT_THAT(SharedPrefixes(), IsEmpty());
  EXPECT_EQ(builder_.num_rows(), 1u);
  EXPECT_EQ(builder_.num_logit_rows(), 1u);
}

}  // namespace
}  // namespace kvern
