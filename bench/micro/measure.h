// Measuring a kernel on a machine that is never quite still: every sample stands between two probes of the limit that
// it is judged by, taken by the same threads, and is timed in CPU time. A loop of nops tells whether somebody else
// holds the sibling hyperthread: "quiet" samples are those above 15.5 nops per ns.
#pragma once

#include <time.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <string>
#include <vector>

#include "base/thread_pool.h"
#include "kernels/dispatch.h"
#include "kernels/probes.h"
#include "platform/affinity.h"

namespace kvern {

inline constexpr double kQuietNopsPerNs = 15.5;

// CPU time of this thread: what other processes take away does not count.
inline double ThreadSeconds() {
  timespec time;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

inline double WallSeconds() {
  timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
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
    const double share = sum.probe_rate > 0 ? sum.work_rate / sum.probe_rate : 0;  // No probe on this CPU: 0.
    rates.push_back(sum.work_rate);
    shares.push_back(share);
    if (sum.nops > kQuietNopsPerNs) {
      quiet_rates.push_back(sum.work_rate);
      quiet_shares.push_back(share);
    }
  }
  return {Median(rates), Median(shares), Median(quiet_rates), Median(quiet_shares), rates.size(), quiet_rates.size()};
}

// What every kernel bench can be told.
struct BenchFlags {
  std::string target = "auto", only;
  std::string json;      // A file that gets one JSON object per row.
  uint32_t threads = 0;  // 0: one, and all.
  uint32_t samples = 15;
};

// "--name value" pairs; those that are not in BenchFlags go to `other(name, value)`.
template <typename Other>
BenchFlags ParseBenchFlags(int argc, char** argv, const Other& other) {
  BenchFlags flags;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string name = argv[i], value = argv[i + 1];
    if (name == "--target") flags.target = value;
    if (name == "--only") flags.only = value;
    if (name == "--json") flags.json = value;
    if (name == "--threads") flags.threads = static_cast<uint32_t>(std::stoul(value));
    if (name == "--samples") flags.samples = static_cast<uint32_t>(std::stoul(value));
    other(name, value);
  }
  if (!flags.json.empty()) std::ofstream(flags.json, std::ios::trunc);
  return flags;
}

// One row of the result: `label` is words and name=value pairs.
inline void ReportRow(const BenchFlags& flags, const char* label, const char* unit, const Measurement& m) {
  std::printf("%-72s %8.3f %-6s %5.1f %%  quiet %2zu of %2zu: %8.3f %5.1f %%\n", label, m.rate, unit, 100 * m.share,
              m.num_quiet, m.num_samples, m.quiet_rate, 100 * m.quiet_share);
  std::fflush(stdout);
  if (flags.json.empty()) return;
  std::ofstream out(flags.json, std::ios::app);
  out << "{\"label\": \"" << label << "\", \"unit\": \"" << unit << "\", \"rate\": " << m.rate
      << ", \"share\": " << m.share << ", \"quiet_rate\": " << m.quiet_rate << ", \"quiet_share\": " << m.quiet_share
      << ", \"samples\": " << m.num_samples << ", \"quiet_samples\": " << m.num_quiet << "}\n";
  if (!out.flush()) std::fprintf(stderr, "cannot write to %s\n", flags.json.c_str());
}

// Calls run(kernels, pool) on pinned pools of one thread and of all, or of as many as the flags say. The exit code.
template <typename Run>
int RunBench(const char* program, const BenchFlags& flags, const Run& run) {
  const auto target = ChooseTarget(flags.target);
  if (!target.ok()) {
    std::fprintf(stderr, "%s: %s\n", program, target.status().message().c_str());
    return 2;
  }
  const std::vector<int> cpus = UsableCpus();
  std::vector<uint32_t> counts = {1, static_cast<uint32_t>(cpus.size())};
  if (flags.threads != 0) counts = {flags.threads};
  for (const uint32_t count : counts) {
    PinThisThread(cpus[0]);
    ThreadPool pool(count, [&cpus](uint32_t i) { PinThisThread(cpus[i % cpus.size()]); });
    run(**target, pool);
  }
  return 0;
}

}  // namespace kvern
