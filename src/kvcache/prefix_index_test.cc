#include "kvcache/prefix_index.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace kvern {
namespace {

// The index takes keys as they come: these are as good as any.
BlockKey Key(uint8_t number) {
  BlockKey key;
  key.bytes[0] = number;
  return key;
}

const BlockKey kRoot = Key(0);

TEST(PrefixIndexTest, ABlockIsFoundByItsKeyAndTokens) {
  PrefixIndex index(8);

  EXPECT_TRUE(index.Insert(3, Key(1), kRoot, std::vector<TokenId>{1, 2, 3, 4}, {.salt = 7}));

  EXPECT_EQ(index.Find(Key(1), std::vector<TokenId>{1, 2, 3, 4}), 3u);
  EXPECT_EQ(index.Find(Key(2), std::vector<TokenId>{1, 2, 3, 4}), std::nullopt);
  EXPECT_EQ(index.entry(3).owner.salt, 7u);
  EXPECT_EQ(index.size(), 1u);
}

TEST(PrefixIndexTest, AKeyIsNotEnoughTokensAreCompared) {
  PrefixIndex index(8);
  index.Insert(3, Key(1), kRoot, std::vector<TokenId>{1, 2, 3, 4}, {});

  EXPECT_EQ(index.Find(Key(1), std::vector<TokenId>{1, 2, 3, 5}), std::nullopt);
  EXPECT_EQ(index.Find(Key(1), std::vector<TokenId>{1, 2, 3}), std::nullopt);
}

TEST(PrefixIndexTest, TheSameKeyIsEnteredOnce) {
  PrefixIndex index(8);
  index.Insert(3, Key(1), kRoot, std::vector<TokenId>{1, 2}, {});

  EXPECT_FALSE(index.Insert(4, Key(1), kRoot, std::vector<TokenId>{1, 2}, {}));
  EXPECT_FALSE(index.Insert(4, Key(2), kRoot, std::vector<TokenId>{1, 2}, {}));

  EXPECT_EQ(index.Find(Key(1), std::vector<TokenId>{1, 2}), 3u);
  EXPECT_FALSE(index.Has(4));
}

TEST(PrefixIndexTest, TheLongestBeginningIsFoundAmongManySiblings) {
  PrefixIndex index(400);
  uint8_t number = 1;
  for (TokenId a = 0; a < 6; ++a) {
    for (TokenId b = 0; b < 6; ++b) {
      index.Insert(number, Key(number), kRoot, std::vector<TokenId>{a, b, 9, 9}, {});
      ++number;
    }
  }

  const auto found = index.FindBeginning(kRoot, std::vector<TokenId>{4, 2, 9, 7});

  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->num_tokens, 3u);
  EXPECT_THAT(index.entry(found->block).tokens, ::testing::ElementsAre(4, 2, 9, 9));
  EXPECT_EQ(index.FindBeginning(kRoot, std::vector<TokenId>{4, 7, 0, 0})->num_tokens, 1u);
  EXPECT_EQ(index.FindBeginning(kRoot, std::vector<TokenId>{4, 2})->num_tokens, 2u);  // Fewer are asked for.
  EXPECT_FALSE(index.FindBeginning(kRoot, std::vector<TokenId>{7, 2}).has_value());
  EXPECT_FALSE(index.FindBeginning(Key(1), std::vector<TokenId>{4, 2}).has_value());  // After another parent.
}

TEST(PrefixIndexTest, ADivergenceIsASiblingThatGoesOnOtherwise) {
  PrefixIndex index(8);
  index.Insert(1, Key(1), kRoot, std::vector<TokenId>{1, 2, 3, 4}, {});
  index.Insert(2, Key(2), kRoot, std::vector<TokenId>{5, 6}, {});

  const auto at_two = index.FindDivergence(kRoot, std::vector<TokenId>{1, 2, 8, 8});
  const auto at_none = index.FindDivergence(kRoot, std::vector<TokenId>{3, 6});

  ASSERT_TRUE(at_two.has_value());
  EXPECT_EQ(at_two->block, 1u);
  EXPECT_EQ(at_two->num_tokens, 2u);
  ASSERT_TRUE(at_none.has_value());
  EXPECT_EQ(at_none->num_tokens, 0u);
  EXPECT_FALSE(index.FindDivergence(kRoot, std::vector<TokenId>{5, 6, 7, 8}).has_value());  // Goes on from block 2.
  EXPECT_FALSE(index.FindDivergence(kRoot, std::vector<TokenId>{1, 2}).has_value());        // Ends in block 1.
  EXPECT_FALSE(index.FindDivergence(Key(1), std::vector<TokenId>{1}).has_value());
}

TEST(PrefixIndexTest, ASiblingThatTheTokensGoOnFromIsSuperfluous) {
  PrefixIndex index(8);
  index.Insert(1, Key(1), kRoot, std::vector<TokenId>{1, 2}, {});
  index.Insert(2, Key(2), kRoot, std::vector<TokenId>{1, 3}, {});
  index.Insert(3, Key(3), kRoot, std::vector<TokenId>{1, 2, 3, 4}, {});

  EXPECT_EQ(index.FindSuperfluous(3), 1u);
  EXPECT_EQ(index.FindSuperfluous(2), std::nullopt);
  EXPECT_EQ(index.FindSuperfluous(1), std::nullopt);
}

TEST(PrefixIndexTest, ARemovedBlockIsFoundNoMoreAndMayComeBack) {
  PrefixIndex index(8);
  index.Insert(1, Key(1), kRoot, std::vector<TokenId>{1, 2}, {});
  index.entry(1).num_hits = 3;

  index.Remove(1);
  EXPECT_EQ(index.Find(Key(1), std::vector<TokenId>{1, 2}), std::nullopt);
  EXPECT_FALSE(index.FindBeginning(kRoot, std::vector<TokenId>{1, 2}).has_value());
  index.Insert(1, Key(4), kRoot, std::vector<TokenId>{5}, {});

  EXPECT_EQ(index.Find(Key(4), std::vector<TokenId>{5}), 1u);
  EXPECT_EQ(index.entry(1).num_hits, 0u);
}

TEST(PrefixIndexTest, ABlockWithoutItsParentIsStillFoundByItsOwnKey) {
  PrefixIndex index(8);
  index.Insert(1, Key(1), kRoot, std::vector<TokenId>{1}, {});
  index.Insert(2, Key(2), Key(1), std::vector<TokenId>{2}, {});

  index.Remove(1);

  EXPECT_EQ(index.Find(Key(2), std::vector<TokenId>{2}), 2u);
}

}  // namespace
}  // namespace kvern
