#include "platform/prefault.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <chrono>
#include <cstring>
#include <thread>
#include <vector>

#include "platform/huge_pages.h"

namespace kvern {
namespace {

constexpr size_t kMiB = size_t{1} << 20;

// Pages of `bytes` that are in memory now.
size_t PresentPages(std::span<uint8_t> bytes) {
  std::vector<unsigned char> present((bytes.size() + 4095) / 4096);
  EXPECT_EQ(::mincore(bytes.data(), bytes.size(), present.data()), 0);
  size_t count = 0;
  for (const unsigned char page : present) count += page & 1;
  return count;
}

TEST(PrefaultTest, AllPagesComeAndKeepWhatTheyHold) {
  AlignedBuffer first = HugePageAllocator().Allocate(16 * kMiB).value();
  AlignedBuffer second = HugePageAllocator().Allocate(5 * kMiB).value();
  first.data()[7 * kMiB] = 42;
  std::memset(second.data(), 9, 100);
  {
    const Prefault prefault({{first.data(), first.size()}, {second.data(), second.size()}});
    while (!prefault.is_done()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }

  if (PresentPages({first.data(), first.size()}) <= 512) GTEST_SKIP() << "this system cannot do it";
  EXPECT_EQ(PresentPages({first.data(), first.size()}), 16 * kMiB / 4096);
  EXPECT_EQ(PresentPages({second.data(), second.size()}), 5 * kMiB / 4096);
  EXPECT_EQ(first.data()[7 * kMiB], 42);
  EXPECT_EQ(first.data()[7 * kMiB + 1], 0);
  EXPECT_EQ(second.data()[99], 9);
  EXPECT_EQ(second.data()[100], 0);
}

TEST(PrefaultTest, EndsWithoutWaitingForAllOfIt) {
  AlignedBuffer large = HugePageAllocator().Allocate(size_t{4} << 30).value();

  { const Prefault prefault({{large.data(), large.size()}}); }

  EXPECT_LT(PresentPages({large.data(), large.size()}), (size_t{4} << 30) / 4096);
}

TEST(PrefaultTest, APausedOneWaitsAndGoesOnAfterwards) {
  AlignedBuffer buffer = HugePageAllocator().Allocate(size_t{1} << 30).value();
  const std::span<uint8_t> memory = {buffer.data(), buffer.size()};
  Prefault prefault({memory});
  prefault.Pause();

  const size_t limit = PresentPages(memory) + 2 * kMiB / 4096;  // With the piece under way.
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_LE(PresentPages(memory), limit);
  if (prefault.is_done()) GTEST_SKIP() << "this system cannot do it, or did all before";

  prefault.Resume();
  while (PresentPages(memory) <= limit && !prefault.is_done()) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  EXPECT_GT(PresentPages(memory), limit);
}

TEST(PrefaultTest, APausedOneEnds) {
  AlignedBuffer buffer = HugePageAllocator().Allocate(size_t{1} << 30).value();
  Prefault prefault({{buffer.data(), buffer.size()}});
  prefault.Pause();
}

TEST(PrefaultTest, NothingIsDoneAtOnce) {
  const Prefault prefault({});
  while (!prefault.is_done()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

}  // namespace
}  // namespace kvern
