#include "base/thread_pool.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

namespace kvern {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;

class ThreadPoolTest : public ::testing::TestWithParam<uint32_t> {};

TEST_P(ThreadPoolTest, RunsTheRegionOnceOnEveryWorker) {
  ThreadPool pool(GetParam());
  std::vector<int> num_calls(GetParam(), 0);

  pool.Run([&](Worker& worker) {
    EXPECT_EQ(worker.count(), GetParam());
    ++num_calls[worker.index()];
  });

  EXPECT_EQ(pool.num_threads(), GetParam());
  EXPECT_THAT(num_calls, Each(1));
}

TEST_P(ThreadPoolTest, RunsWorkerZeroOnTheCallingThread) {
  ThreadPool pool(GetParam());
  std::thread::id id;

  pool.Run([&](Worker& worker) {
    if (worker.index() == 0) id = std::this_thread::get_id();
  });

  EXPECT_EQ(id, std::this_thread::get_id());
}

TEST_P(ThreadPoolTest, ManyShortRegionsSeeEachOthersWrites) {
  constexpr int kNumRegions = 2000;
  ThreadPool pool(GetParam());
  std::vector<uint64_t> values(64, 0);  // Plain memory: only the end of a region orders it.

  for (int i = 0; i < kNumRegions; ++i) {
    pool.Run([&](Worker& worker) {
      const auto [begin, end] = worker.Part(values.size());
      for (uint64_t j = begin; j < end; ++j) ++values[(j + i) % values.size()];
    });
  }

  EXPECT_THAT(values, Each(kNumRegions));
}

TEST_P(ThreadPoolTest, WritesBeforeABarrierAreSeenByAllAfterIt) {
  constexpr uint64_t kNumRounds = 500;
  ThreadPool pool(GetParam());
  std::vector<uint64_t> round_of(GetParam(), 0);
  std::atomic<int> num_wrong{0};

  pool.Run([&](Worker& worker) {
    for (uint64_t round = 1; round <= kNumRounds; ++round) {
      round_of[worker.index()] = round;
      worker.Barrier();
      for (uint64_t value : round_of) num_wrong += value != round;
      worker.Barrier();  // Nobody begins the next round while another still reads.
    }
  });

  EXPECT_EQ(num_wrong, 0);
}

TEST_P(ThreadPoolTest, BarriersGoOnAcrossRegions) {
  ThreadPool pool(GetParam());
  std::vector<uint64_t> sums(GetParam(), 0);
  std::vector<uint64_t> next(GetParam(), 0);

  for (int i = 0; i < 200; ++i) {
    pool.Run([&](Worker& worker) {
      sums[worker.index()] = i;
      worker.Barrier();
      next[worker.index()] = sums[(worker.index() + 1) % worker.count()];
    });
    ASSERT_THAT(next, Each(static_cast<uint64_t>(i)));
  }
}

TEST_P(ThreadPoolTest, CallsOnStartOnEveryStartedThread) {
  std::mutex mutex;
  std::set<uint32_t> indices;
  std::set<std::thread::id> ids;
  {
    ThreadPool pool(GetParam(), [&](uint32_t index) {
      std::lock_guard lock(mutex);
      indices.insert(index);
      ids.insert(std::this_thread::get_id());
    });
  }

  EXPECT_EQ(indices.size(), GetParam() - 1);
  EXPECT_EQ(ids.size(), GetParam() - 1);
  EXPECT_EQ(ids.count(std::this_thread::get_id()), 0u);
  EXPECT_EQ(indices.count(0), 0u);
}

TEST_P(ThreadPoolTest, EndsWithoutEverHavingRun) { ThreadPool pool(GetParam()); }

TEST_P(ThreadPoolTest, PartsAreDisjointAndCoverEverything) {
  ThreadPool pool(GetParam());
  for (uint64_t num_items : {0, 1, 2, 7, 15, 16, 17, 100}) {
    for (uint64_t unit : {1, 4, 16}) {
      std::vector<Worker::Range> parts(GetParam());

      pool.Run([&](Worker& worker) { parts[worker.index()] = worker.Part(num_items, unit); });

      uint64_t expected_begin = 0;
      for (const Worker::Range& part : parts) {
        EXPECT_EQ(part.begin, expected_begin);
        EXPECT_LE(part.begin, part.end);
        EXPECT_TRUE(part.end % unit == 0 || part.end == num_items);
        expected_begin = part.end;
      }
      EXPECT_EQ(expected_begin, num_items) << "unit " << unit;
    }
  }
}

// Three and eight threads are more than many machines have CPUs: a pool that only spun would take minutes here.
INSTANTIATE_TEST_SUITE_P(Threads, ThreadPoolTest, ::testing::Values(1, 2, 3, 8));

TEST(ThreadPoolPartTest, FirstWorkersTakeTheRest) {
  ThreadPool pool(4);
  std::vector<uint64_t> sizes(4);

  pool.Run([&](Worker& worker) {
    const auto [begin, end] = worker.Part(10);
    sizes[worker.index()] = end - begin;
  });

  EXPECT_THAT(sizes, ElementsAre(3, 3, 2, 2));
}

TEST(ThreadPoolPartTest, LargestNumberOfItemsDoesNotWrap) {
  ThreadPool pool(3);
  std::vector<Worker::Range> parts(3);

  pool.Run([&](Worker& worker) { parts[worker.index()] = worker.Part(UINT64_MAX, 16); });

  EXPECT_EQ(parts[0].begin, 0u);
  EXPECT_EQ(parts[1].begin, parts[0].end);
  EXPECT_EQ(parts[2].begin, parts[1].end);
  EXPECT_EQ(parts[2].end, UINT64_MAX);
}

TEST(FunctionRefTest, CallsTheBorrowedCallable) {
  int calls = 0;
  auto add = [&calls](int n) { return calls += n; };
  FunctionRef<int(int)> ref = add;

  ref(2);

  EXPECT_EQ(ref(3), 5);
  EXPECT_EQ(calls, 5);
}

}  // namespace
}  // namespace kvern
