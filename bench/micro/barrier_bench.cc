// Cost of a barrier and of a parallel region of the thread pool, with nothing between them.
//   barrier_bench [--threads N] [--samples N]
#include <algorithm>
#include <cstdio>
#include <vector>

#include "bench/micro/measure.h"

namespace kvern {
namespace {

constexpr uint32_t kRepeats = 10000;

// Nanoseconds of one call of `run`, which makes kRepeats of something; median and least over the samples.
template <typename Run>
void Report(const char* what, ThreadPool& pool, uint32_t samples, const Run& run) {
  std::vector<double> times;
  for (uint32_t i = 0; i < samples; ++i) {
    const double start = WallSeconds();
    run();
    times.push_back((WallSeconds() - start) / kRepeats * 1e9);
  }
  std::printf("%-10s threads=%u  %7.0f ns  (least %.0f)\n", what, pool.num_threads(), Median(times),
              *std::min_element(times.begin(), times.end()));
}

int Main(int argc, char** argv) {
  const BenchFlags flags = ParseBenchFlags(argc, argv, [](const std::string&, const std::string&) {});
  return RunBench("barrier_bench", flags, [&](const KernelTable&, ThreadPool& pool) {
    Report("barrier", pool, flags.samples, [&] {
      pool.Run([](Worker& worker) {
        for (uint32_t i = 0; i < kRepeats; ++i) worker.Barrier();
      });
    });
    Report("region", pool, flags.samples, [&] {
      for (uint32_t i = 0; i < kRepeats; ++i) pool.Run([](Worker&) {});
    });
  });
}

}  // namespace
}  // namespace kvern

int main(int argc, char** argv) { return kvern::Main(argc, argv); }
