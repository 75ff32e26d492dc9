#include "platform/affinity.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <thread>

namespace kvern {
namespace {

using ::testing::ElementsAre;

TEST(AffinityTest, UsableCpusAreAscendingAndNotEmpty) {
  const std::vector<int> cpus = UsableCpus();

  ASSERT_FALSE(cpus.empty());
  EXPECT_TRUE(std::is_sorted(cpus.begin(), cpus.end()));
  EXPECT_EQ(std::adjacent_find(cpus.begin(), cpus.end()), cpus.end());
}

TEST(AffinityTest, APinnedThreadMayUseThatCpuOnly) {
  const int cpu = UsableCpus().back();
  bool is_pinned = false;
  std::vector<int> cpus_after;

  std::thread([&] {
    is_pinned = PinThisThread(cpu);
    cpus_after = UsableCpus();
  }).join();

  if (!is_pinned) GTEST_SKIP() << "this system refuses to pin threads";
  EXPECT_THAT(cpus_after, ElementsAre(cpu));
}

TEST(AffinityTest, PinningToNoSuchCpuChangesNothing) {
  const std::vector<int> before = UsableCpus();

  EXPECT_FALSE(PinThisThread(-1));
  EXPECT_FALSE(PinThisThread(1 << 15));
  EXPECT_FALSE(PinThisThread(1 << 30));

  EXPECT_EQ(UsableCpus(), before);
}

}  // namespace
}  // namespace kvern
