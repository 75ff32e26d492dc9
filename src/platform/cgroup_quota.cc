#include "platform/cgroup_quota.h"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <string_view>

namespace kvern {
namespace {

std::optional<int64_t> ParseNumber(std::string_view text) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::optional<std::string> ReadLine(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  if (!std::getline(file, line)) return std::nullopt;
  return line;
}

// Both in microseconds; a negative quota ("-1") is none.
std::optional<uint32_t> CpusOf(std::optional<int64_t> quota, std::optional<int64_t> period) {
  if (!quota || !period || *quota <= 0 || *period <= 0) return std::nullopt;
  const int64_t cpus = *quota / *period + (*quota % *period != 0 ? 1 : 0);
  return static_cast<uint32_t>(std::min<int64_t>(cpus, UINT32_MAX));
}

// cpu.max: "200000 100000" or "max 100000".
std::optional<uint32_t> ReadVersion2(const std::string& directory) {
  const std::optional<std::string> line = ReadLine(directory + "/cpu.max");
  if (!line) return std::nullopt;
  const size_t blank = line->find(' ');
  if (blank == std::string::npos) return std::nullopt;
  const std::string_view text = *line;
  return CpusOf(ParseNumber(text.substr(0, blank)), ParseNumber(text.substr(blank + 1)));
}

std::optional<uint32_t> ReadVersion1(const std::string& directory) {
  const std::optional<std::string> quota = ReadLine(directory + "/cpu.cfs_quota_us");
  const std::optional<std::string> period = ReadLine(directory + "/cpu.cfs_period_us");
  if (!quota || !period) return std::nullopt;
  return CpusOf(ParseNumber(*quota), ParseNumber(*period));
}

using QuotaReader = std::optional<uint32_t> (*)(const std::string& directory);

// The smallest quota of `group` ("/a/b") and the groups above it. Inside a container the path may name groups that only
// the host sees; the container's own group is then the root.
std::optional<uint32_t> TightestQuota(const std::string& hierarchy, std::string group, QuotaReader read) {
  std::optional<uint32_t> tightest;
  for (;;) {
    while (!group.empty() && group.back() == '/') group.pop_back();
    if (const std::optional<uint32_t> cpus = read(hierarchy + group))
      tightest = std::min(tightest.value_or(*cpus), *cpus);
    if (group.empty()) return tightest;
    group.erase(group.find_last_of('/') == std::string::npos ? 0 : group.find_last_of('/'));
  }
}

// Whether "cpu" is one of the comma-separated names.
bool NamesCpu(std::string_view controllers) {
  while (!controllers.empty()) {
    const size_t comma = controllers.find(',');
    if (controllers.substr(0, comma) == "cpu") return true;
    controllers = comma == std::string_view::npos ? std::string_view() : controllers.substr(comma + 1);
  }
  return false;
}

}  // namespace

std::optional<uint32_t> CgroupCpuQuota(const std::string& membership_path, const std::string& mount_path) {
  std::optional<uint32_t> tightest;
  std::ifstream file(membership_path);
  // Each line is "id:controllers:path"; version 2 has id 0 and no controllers.
  for (std::string line; std::getline(file, line);) {
    const size_t first = line.find(':');
    const size_t second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const std::string group = line.substr(second + 1);
    std::optional<uint32_t> cpus;
    if (controllers.empty()) {
      cpus = TightestQuota(mount_path, group, ReadVersion2);
    } else if (NamesCpu(controllers)) {
      cpus = TightestQuota(mount_path + "/" + controllers, group, ReadVersion1);
      if (!cpus) cpus = TightestQuota(mount_path + "/cpu", group, ReadVersion1);
    }
    if (cpus) tightest = std::min(tightest.value_or(*cpus), *cpus);
  }
  return tightest;
}

}  // namespace kvern
