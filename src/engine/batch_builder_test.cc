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
  BlockTable& NewTable(uint64_t num_tokens) {
    BlockTable& table = tables_.emplace_back(*pool_);
    EXPECT_TRUE(table.Reserve(num_tokens).ok());
    table.Commit(num_tokens);
    return table;
  }
  BlockTable& ForkOf(const BlockTable& table) {
    BlockTable& fork = tables_.emplace_back(*pool_);
    fork.Fork(table);
    return fork;
  }
  void AddDecode(BlockTable& table) { builder_.Add(table, std::vector<TokenId>{1}, 1); }
  // {first sequence, sequences, tokens} of each shared prefix.
  std::vector<std::vector<uint32_t>> SharedPrefixes() {
    std::vector<std::vector<uint32_t>> found;
    for (const SharedPrefix& prefix : builder_.Build(pool_->view()).shared_prefixes) {
      found.push_back({prefix.first_sequence, prefix.num_sequences, prefix.num_tokens});
    }
    return found;
  }

  const BlockLayout layout_ = BlockLayout::Create({1, 1, 16}, kBlockSize, KvType::kF16, KvType::kF16).value();
  std::unique_ptr<BlockPool> pool_ = BlockPool::Create(layout_, 100 * layout_.block_bytes(), HeapAllocator()).value();
  std::deque<BlockTable> tables_;
  BatchBuilder builder_;
};

TEST_F(BatchBuilderTest, RowsStandInTheOrderInWhichTheyWereAdded) {
  BlockTable& decoding = NewTable(20);
  BlockTable& prefilling = NewTable(0);

  builder_.Add(decoding, std::vector<TokenId>{7}, 1);
  builder_.Add(prefilling, std::vector<TokenId>{8, 9, 10}, 2);
  const ForwardBatch batch = builder_.Build(pool_->view());

  EXPECT_THAT(batch.tokens, ElementsAre(7, 8, 9, 10));
  EXPECT_THAT(batch.logit_rows, ElementsAre(0, 2, 3));
  ASSERT_EQ(batch.sequences.size(), 2u);
  EXPECT_EQ(batch.sequences[0].first_position, 20u);
  EXPECT_EQ(batch.sequences[1].first_row, 1u);
  EXPECT_EQ(batch.sequences[1].num_rows, 3u);
  EXPECT_EQ(builder_.VisiblePairs(0), 21u);
  EXPECT_EQ(builder_.TotalVisiblePairs(), 21u + 1 + 2 + 3);
}

TEST_F(BatchBuilderTest, NeighboursWhoseTablesBeginWithTheSameBlocksShareThem) {
  BlockTable& alone = NewTable(50);
  BlockTable& first = NewTable(40);
  BlockTable& second = ForkOf(first);
  BlockTable& third = ForkOf(first);
  BlockTable& other = NewTable(16);
  BlockTable& fork_of_other = ForkOf(other);

  for (BlockTable* table : {&alone, &first, &second, &third, &other, &fork_of_other}) AddDecode(*table);

  EXPECT_THAT(SharedPrefixes(), ElementsAre(ElementsAre(1, 3, 32), ElementsAre(4, 2, 16)));
}

TEST_F(BatchBuilderTest, OneThatSharesLessDoesNotShortenAPrefix) {
  BlockTable& early = NewTable(20);
  BlockTable& first = ForkOf(early);
  ASSERT_TRUE(first.Reserve(50).ok());
  first.Commit(30);
  BlockTable& second = ForkOf(first);

  for (BlockTable* table : {&first, &second, &early}) AddDecode(*table);

  EXPECT_THAT(SharedPrefixes(), ElementsAre(ElementsAre(0, 2, 48)));
}

TEST_F(BatchBuilderTest, OnlySequencesOfOneRowShare) {
  BlockTable& first = NewTable(32);
  BlockTable& second = ForkOf(first);

  AddDecode(first);
  builder_.Add(second, std::vector<TokenId>{1, 2}, 1);

  EXPECT_THAT(SharedPrefixes(), IsEmpty());
}

TEST_F(BatchBuilderTest, PromptsShorterThanABlockShareNothing) {
  BlockTable& first = NewTable(15);
  BlockTable& second = ForkOf(first);

  AddDecode(first);
  AddDecode(second);

  EXPECT_THAT(SharedPrefixes(), IsEmpty());
}

TEST_F(BatchBuilderTest, ClearForgetsTheStepBefore) {
  BlockTable& first = NewTable(32);
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
