#include "kvcache/ghost_list.h"

#include <gtest/gtest.h>

namespace kvern {
namespace {

BlockKey Key(uint8_t number) {
  BlockKey key;
  key.bytes[0] = number;
  return key;
}

TEST(GhostListTest, TheOldestKeyIsForgottenFirst) {
  GhostList ghosts(2);

  for (const uint8_t number : {1, 2, 3}) ghosts.Add(Key(number));

  EXPECT_FALSE(ghosts.Has(Key(1)));
  EXPECT_TRUE(ghosts.Has(Key(2)));
  EXPECT_TRUE(ghosts.Has(Key(3)));
  EXPECT_EQ(ghosts.size(), 2u);
}

TEST(GhostListTest, AKeyThatComesAgainCountsFromThen) {
  GhostList ghosts(3);

  for (const uint8_t number : {1, 2, 1, 3}) ghosts.Add(Key(number));  // The first 1 has been overwritten.

  EXPECT_TRUE(ghosts.Has(Key(1)));
  ghosts.Add(Key(4));
  EXPECT_FALSE(ghosts.Has(Key(2)));
  EXPECT_TRUE(ghosts.Has(Key(1)));
  ghosts.Add(Key(5));
  EXPECT_FALSE(ghosts.Has(Key(1)));
}

TEST(GhostListTest, OneThatWasRemovedMayComeBack) {
  GhostList ghosts(2);
  ghosts.Add(Key(1));

  ghosts.Remove(Key(1));
  EXPECT_FALSE(ghosts.Has(Key(1)));
  ghosts.Add(Key(1));
  ghosts.Add(Key(2));

  EXPECT_TRUE(ghosts.Has(Key(1)));
  EXPECT_TRUE(ghosts.Has(Key(2)));
}

TEST(GhostListTest, OneOfNoKeysHoldsNone) {
  GhostList ghosts(0);
  ghosts.Add(Key(1));
  EXPECT_FALSE(ghosts.Has(Key(1)));
}

}  // namespace
}  // namespace kvern
