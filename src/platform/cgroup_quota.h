// The share of the machine's CPU time that Linux control groups leave to this process.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace kvern {

// The number of CPUs worth of time that the tightest CPU quota above this process allows, rounded up and at least 1;
// nullopt where nothing limits it. `membership_path` is the process's list of groups (/proc/self/cgroup), `mount_path`
// where the hierarchies are mounted (/sys/fs/cgroup). Reads cpu.max (version 2) and cpu.cfs_quota_us with
// cpu.cfs_period_us (version 1) of the group and of every group above it; what cannot be read limits nothing.
std::optional<uint32_t> CgroupCpuQuota(const std::string& membership_path, const std::string& mount_path);

}  // namespace kvern
