#include "platform/affinity.h"

#include <sched.h>

#include <cerrno>
#include <memory>
#include <optional>
#include <thread>

#include "platform/cgroup_quota.h"

namespace kvern {
namespace {

constexpr int kMaxCpus = 1 << 16;

struct CpuSetDeleter {
  void operator()(cpu_set_t* set) const { CPU_FREE(set); }
};
using CpuSet = std::unique_ptr<cpu_set_t, CpuSetDeleter>;

// Ascending; empty where the system does not tell.
std::vector<int> CpusInMask() {
  std::vector<int> cpus;
  // The kernel refuses a set smaller than its own, which can be larger than cpu_set_t.
  for (int capacity = CPU_SETSIZE; capacity <= kMaxCpus; capacity *= 2) {
    const CpuSet set(CPU_ALLOC(capacity));
    if (set == nullptr) return cpus;
    const size_t num_bytes = CPU_ALLOC_SIZE(capacity);
    CPU_ZERO_S(num_bytes, set.get());
    if (::sched_getaffinity(0, num_bytes, set.get()) == 0) {
      for (int cpu = 0; cpu < capacity; ++cpu) {
        if (CPU_ISSET_S(cpu, num_bytes, set.get())) cpus.push_back(cpu);
      }
      return cpus;
    }
    if (errno != EINVAL) return cpus;
  }
  return cpus;
}

}  // namespace

std::vector<int> UsableCpus() {
  std::vector<int> cpus = CpusInMask();
  if (cpus.empty()) {
    const unsigned count = std::thread::hardware_concurrency();
    for (unsigned cpu = 0; cpu < (count == 0 ? 1 : count); ++cpu) cpus.push_back(static_cast<int>(cpu));
  }
  const std::optional<uint32_t> quota = CgroupCpuQuota("/proc/self/cgroup", "/sys/fs/cgroup");
  if (quota && *quota < cpus.size()) cpus.resize(*quota);
  return cpus;
}

bool PinThisThread(int cpu) {
  if (cpu < 0 || cpu >= kMaxCpus) return false;
  const CpuSet set(CPU_ALLOC(cpu + 1));
  if (set == nullptr) return false;
  const size_t num_bytes = CPU_ALLOC_SIZE(cpu + 1);
  CPU_ZERO_S(num_bytes, set.get());
  CPU_SET_S(cpu, num_bytes, set.get());
  return ::sched_setaffinity(0, num_bytes, set.get()) == 0;
}

}  // namespace kvern
