// The CPUs that this process may use, and pinning threads to them.
#pragma once

#include <cstdint>
#include <vector>

namespace kvern {

// CPUs in the affinity mask, ascending, cut to the cgroup's CPU quota (rounded up) where there is one. Never empty.
std::vector<int> UsableCpus();

// Pins the calling thread to `cpu`. False (and no change) where the system refuses.
bool PinThisThread(int cpu);

}  // namespace kvern
