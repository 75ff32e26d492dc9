// What every eviction policy must do, run over all registered ones: it picks what is evictable, all of it and nothing
// else, and what leaves first before anything else.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "base/xorshift.h"
#include "kvcache/policies/policy_registry.h"

namespace kvern {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using ::testing::UnorderedElementsAre;

class EvictionPolicyTest : public ::testing::TestWithParam<PolicyEntry> {
 protected:
  std::unique_ptr<EvictionPolicy> Make(uint32_t num_blocks) const { return GetParam().make(num_blocks); }
};

std::vector<BlockIndex> Pick(EvictionPolicy& policy, size_t count) {
  std::vector<BlockIndex> victims;
  policy.PickVictims(count, victims);
  return victims;
}

TEST_P(EvictionPolicyTest, IsFoundByItsName) {
  EXPECT_EQ(Make(1)->Name(), GetParam().name);
  EXPECT_EQ(FindPolicy(GetParam().name).value()->name, GetParam().name);
  EXPECT_THAT(FindPolicy("none").status().message(), HasSubstr(std::string(GetParam().name)));
}

TEST_P(EvictionPolicyTest, NothingIsPickedBeforeItIsEvictable) {
  const auto policy = Make(4);

  EXPECT_THAT(Pick(*policy, 3), IsEmpty());
}

TEST_P(EvictionPolicyTest, OfBlocksThatAreAlikeTheOneUnusedForLongestLeavesFirst) {
  const auto policy = Make(8);
  for (const BlockIndex block : {3u, 1u, 2u}) policy->OnEvictable(block, {});

  EXPECT_THAT(Pick(*policy, 2), ElementsAre(3u, 1u));
  EXPECT_THAT(Pick(*policy, 9), ElementsAre(3u, 1u, 2u));
}

TEST_P(EvictionPolicyTest, PickingRemovesNothingAndAppends) {
  const auto policy = Make(8);
  policy->OnEvictable(5, {});
  std::vector<BlockIndex> victims = {7};

  policy->PickVictims(1, victims);
  policy->PickVictims(1, victims);

  EXPECT_THAT(victims, ElementsAre(7u, 5u, 5u));
}

TEST_P(EvictionPolicyTest, AReusedBlockIsNotPickedBeforeItIsEvictableAgain) {
  const auto policy = Make(8);
  policy->OnEvictable(1, {});
  policy->OnEvictable(2, {});

  policy->OnReused(1);
  EXPECT_THAT(Pick(*policy, 8), ElementsAre(2u));
  policy->OnEvictable(1, {.num_hits = 1});

  EXPECT_THAT(Pick(*policy, 8), UnorderedElementsAre(1u, 2u));
}

TEST_P(EvictionPolicyTest, ARemovedBlockIsForgotten) {
  const auto policy = Make(8);
  policy->OnEvictable(1, {});
  policy->OnEvictable(2, {});

  policy->OnRemoved(1);
  policy->OnReused(2);
  policy->OnRemoved(2);  // While a sequence uses it.
  EXPECT_THAT(Pick(*policy, 8), IsEmpty());
  policy->OnEvictable(2, {});  // Other tokens in the same place.

  EXPECT_THAT(Pick(*policy, 8), ElementsAre(2u));
}

TEST_P(EvictionPolicyTest, BlocksBehindAWindowLeaveBeforeAllOthers) {
  const auto policy = Make(8);
  policy->OnEvictable(1, {});
  policy->OnEvictable(2, {.num_hits = 3});
  policy->OnEvictable(3, {.leaves_first = true});
  policy->OnEvictable(4, {});
  policy->OnEvictable(5, {.leaves_first = true});

  EXPECT_THAT(Pick(*policy, 2), ElementsAre(3u, 5u));
  EXPECT_THAT(Pick(*policy, 8), SizeIs(5));
}

// Random calls against a plain set: what is picked is evictable, each block once, and as many as there are.
TEST_P(EvictionPolicyTest, PicksWhatIsEvictableAndNothingElse) {
  constexpr uint32_t kBlocks = 64;
  const auto policy = Make(kBlocks);
  XorShift64 random(7);
  std::set<BlockIndex> evictable;
  std::vector<uint32_t> num_hits(kBlocks);
  for (int i = 0; i < 20'000; ++i) {
    const BlockIndex block = random.Next32() % kBlocks;
    if (!evictable.contains(block)) {
      policy->OnEvictable(block, {.num_hits = num_hits[block], .leaves_first = random.Next32() % 8 == 0});
      evictable.insert(block);
    } else if (random.Next32() % 2 == 0) {
      policy->OnReused(block);
      ++num_hits[block];
      evictable.erase(block);
    } else {
      policy->OnRemoved(block);
      num_hits[block] = 0;
      evictable.erase(block);
    }
    const size_t count = random.Next32() % (kBlocks + 2);
    const std::vector<BlockIndex> victims = Pick(*policy, count);
    ASSERT_EQ(victims.size(), std::min(count, evictable.size()));
    ASSERT_EQ(std::set<BlockIndex>(victims.begin(), victims.end()).size(), victims.size());
    for (const BlockIndex victim : victims) ASSERT_TRUE(evictable.contains(victim));
  }
}

INSTANTIATE_TEST_SUITE_P(All, EvictionPolicyTest, ::testing::ValuesIn(AllPolicies().begin(), AllPolicies().end()),
                         [](const auto& test) { return std::string(test.param.name); });

// Blocks that were hit survive a scan that is larger than the pool.
TEST(SlruPolicyTest, AScanLeavesSharedBlocksAlone) {
  const auto policy = MakeSlruPolicy(10);
  policy->OnEvictable(0, {.num_hits = 1});
  policy->OnEvictable(1, {.num_hits = 5});
  for (BlockIndex block = 2; block < 10; ++block) policy->OnEvictable(block, {});

  EXPECT_THAT(Pick(*policy, 8), ElementsAre(2u, 3u, 4u, 5u, 6u, 7u, 8u, 9u));
}

TEST(SlruPolicyTest, NoMoreThanAShareIsKeptForBlocksThatWereHit) {
  const auto policy = MakeSlruPolicy(10);
  for (BlockIndex block = 0; block < 5; ++block) policy->OnEvictable(block, {.num_hits = 1});
  policy->OnEvictable(5, {});

  EXPECT_THAT(Pick(*policy, 10), ElementsAre(0u, 1u, 5u, 2u, 3u, 4u));
}

}  // namespace
}  // namespace kvern
