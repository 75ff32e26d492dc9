// Measuring a kernel on a machine that is never quite still: every sample stands between two probes of the limit that
// it is judged by, taken by the same threads, and is timed in CPU time. A loop of nops tells whether somebody else
// holds the sibling hyperthread: "quiet" samples are those above 15.5 nops per ns.
#pragma once

#include <time.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "base/thread_pool.h"
#include "kernels/probes.h"

namespace kvern {

inline constexpr double kQuietNopsPerNs = 15.5;

// CPU time of this thread: what other processes take away does not count.
inline double ThreadSeconds() {
  timespec time;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

inline double Median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

// Rate and share of the limit, medians over all samples and over the quiet ones.
struct Measurement {
  double rate = 0, share = 0, quiet_rate = 0, quiet_share = 0;
  size_t num_samples = 0, num_quiet = 0;
};

// `work(worker)` and `probe(worker)` are called by every worker at once and return the units that it has done.
template <typename Work, typename Probe>
Measurement Measure(ThreadPool& pool, uint32_t samples, const Work& work, const Probe& probe) {
  struct Sample {
    double work_rate, probe_rate, nops;
  };
  std::vector<std::vector<Sample>> all(pool.num_threads());
  pool.Run([&](Worker& worker) {
    const auto timed = [&](const auto& function) {
      const double start = ThreadSeconds();
      const double units = function(worker);
      return units / (ThreadSeconds() - start);
    };
    const auto nops = [&] { return timed([](Worker&) { return RunNopProbe(3000); }) * 1e-9; };
    work(worker);
    for (uint32_t i = 0; i < samples; ++i) {
      worker.Barrier();
      const double nops_before = nops();
      const double probe_before = timed(probe);
      worker.Barrier();
      const double rate = timed(work);
      worker.Barrier();
      const double probe_after = timed(probe);
      all[worker.index()].push_back({rate, (probe_before + probe_after) / 2, std::min(nops_before, nops())});
    }
  });
  std::vector<double> rates, shares, quiet_rates, quiet_shares;
  for (uint32_t i = 0; i < samples; ++i) {
    Sample sum = {0, 0, 1e9};
    for (const auto& of_worker : all) {
      sum.work_rate += of_worker[i].work_rate;
      sum.probe_rate += of_worker[i].probe_rate;
      sum.nops = std::min(sum.nops, of_worker[i].nops);
    }
    rates.push_back(sum.work_rate);
    shares.push_back(sum.work_rate / sum.probe_rate);
    if (sum.nops > kQuietNopsPerNs) {
      quiet_rates.push_back(sum.work_rate);
      quiet_shares.push_back(sum.work_rate / sum.probe_rate);
    }
  }
  return {Median(rates), Median(shares), Median(quiet_rates), Median(quiet_shares), rates.size(), quiet_rates.size()};
}

}  // namespace kvern
