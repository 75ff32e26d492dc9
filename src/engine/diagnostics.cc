#include "kvern/diagnostics.h"

#include <algorithm>
#include <vector>

#include "base/thread_pool.h"
#include "kernels/dispatch.h"
#include "kernels/probes.h"
#include "platform/affinity.h"
#include "platform/cpu_features.h"
#include "platform/huge_pages.h"

namespace kvern {

MachineLimits ProbeMachineLimits(uint32_t num_threads) {
  const std::vector<int> cpus = UsableCpus();
  const uint32_t num_workers = std::clamp<uint32_t>(num_threads, 1, static_cast<uint32_t>(cpus.size()));
  ThreadPool pool(num_workers);
  const ProbeResult probe = ProbeMachine(pool, HugePageAllocator());
  MachineLimits limits;
  limits.cpu = GetCpuFeatures().brand;
  limits.num_threads = pool.num_threads();
  limits.int8_tops = probe.int8_dot_tops;
  limits.f32_tflops = probe.f32_fma_tflops;
  limits.read_gb_per_s = probe.read_gb_per_s;
  limits.nops_per_ns = probe.nops_per_ns;
  return limits;
}

std::vector<std::string> RunnableIsas() {
  std::vector<std::string> names;
  for (const KernelTable* kernels : RunnableTargets()) names.emplace_back(kernels->name);
  return names;
}

uint32_t UsableCpuCount() { return static_cast<uint32_t>(UsableCpus().size()); }

uint64_t PeakMemoryBytes() { return PeakResidentBytes(); }

}  // namespace kvern
