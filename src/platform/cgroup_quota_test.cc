#include "platform/cgroup_quota.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

namespace kvern {
namespace {

class CgroupCpuQuotaTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (std::filesystem::temp_directory_path() / "kvern_cgroup_XXXXXX").string();
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    directory_ = pattern;
  }
  void TearDown() override { std::filesystem::remove_all(directory_); }

  // `path` below the mount, for example "a/b/cpu.max".
  void Put(const std::string& path, const std::string& text) const {
    const std::filesystem::path full = directory_ + "/mount/" + path;
    std::filesystem::create_directories(full.parent_path());
    std::ofstream(full) << text;
  }
  std::optional<uint32_t> Quota(const std::string& membership) const {
    std::ofstream(directory_ + "/cgroup") << membership;
    return CgroupCpuQuota(directory_ + "/cgroup", directory_ + "/mount");
  }

  std::string directory_;
};

TEST_F(CgroupCpuQuotaTest, NothingReadableLimitsNothing) {
  EXPECT_EQ(CgroupCpuQuota("/nonexistent/cgroup", "/nonexistent"), std::nullopt);
  EXPECT_EQ(Quota("0::/a\n"), std::nullopt);
}

TEST_F(CgroupCpuQuotaTest, Version2IsRoundedUp) {
  Put("a/cpu.max", "150000 100000\n");

  EXPECT_EQ(Quota("0::/a\n"), 2u);
}

TEST_F(CgroupCpuQuotaTest, ASmallQuotaIsOneCpu) {
  Put("a/cpu.max", "1000 100000\n");

  EXPECT_EQ(Quota("0::/a\n"), 1u);
}

TEST_F(CgroupCpuQuotaTest, MaxIsNoLimit) {
  Put("a/cpu.max", "max 100000\n");

  EXPECT_EQ(Quota("0::/a\n"), std::nullopt);
}

TEST_F(CgroupCpuQuotaTest, TheTightestGroupAboveCounts) {
  Put("a/cpu.max", "200000 100000\n");
  Put("a/b/cpu.max", "800000 100000\n");
  Put("a/b/c/cpu.max", "max 100000\n");

  EXPECT_EQ(Quota("0::/a/b/c\n"), 2u);
}

TEST_F(CgroupCpuQuotaTest, AGroupThatOnlyTheHostSeesFallsBackToTheRoot) {
  Put("cpu.max", "300000 100000\n");

  EXPECT_EQ(Quota("0::/host/only\n"), 3u);
}

TEST_F(CgroupCpuQuotaTest, Version1ReadsQuotaAndPeriod) {
  Put("cpu,cpuacct/a/cpu.cfs_quota_us", "250000\n");
  Put("cpu,cpuacct/a/cpu.cfs_period_us", "100000\n");

  EXPECT_EQ(Quota("5:memory:/a\n4:cpu,cpuacct:/a\n0::/\n"), 3u);
}

TEST_F(CgroupCpuQuotaTest, Version1MayBeMountedAsCpuAlone) {
  Put("cpu/cpu.cfs_quota_us", "100000\n");
  Put("cpu/cpu.cfs_period_us", "100000\n");

  EXPECT_EQ(Quota("4:cpu,cpuacct:/\n"), 1u);
}

TEST_F(CgroupCpuQuotaTest, Version1QuotaOfMinusOneIsNoLimit) {
  Put("cpu/cpu.cfs_quota_us", "-1\n");
  Put("cpu/cpu.cfs_period_us", "100000\n");

  EXPECT_EQ(Quota("4:cpu:/\n"), std::nullopt);
}

TEST_F(CgroupCpuQuotaTest, GarbageLimitsNothing) {
  Put("a/cpu.max", "lots\n");
  Put("b/cpu.max", "100000 0\n");
  Put("c/cpu.max", "99999999999999999999 1\n");

  EXPECT_EQ(Quota("0::/a\n"), std::nullopt);
  EXPECT_EQ(Quota("0::/b\n"), std::nullopt);
  EXPECT_EQ(Quota("0::/c\n"), std::nullopt);
  EXPECT_EQ(Quota("no colons\n:\n"), std::nullopt);
}

}  // namespace
}  // namespace kvern
