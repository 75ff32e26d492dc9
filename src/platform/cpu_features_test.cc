#include "platform/cpu_features.h"

#include <gtest/gtest.h>

#include <fstream>
#include <set>
#include <sstream>
#include <string>

namespace kvern {
namespace {

#if defined(__aarch64__)
constexpr const char* kListOfFlags = "Features";
#else
constexpr const char* kListOfFlags = "flags";
#endif

// The flags that the kernel reports for the first CPU; empty where it reports none in the form of this architecture (an
// emulator may show the list of the machine that it runs on).
std::set<std::string> FlagsOfTheKernel() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (line.rfind(kListOfFlags, 0) != 0) continue;
    std::istringstream words(line.substr(line.find(':') + 1));
    return {std::istream_iterator<std::string>(words), {}};
  }
  return {};
}

TEST(CpuFeaturesTest, AgreesWithTheKernel) {
  const std::set<std::string> flags = FlagsOfTheKernel();
  if (flags.empty()) GTEST_SKIP() << "this system does not list its CPU's features";
  const auto has_all = [&](std::initializer_list<const char*> names) {
    for (const char* name : names) {
      if (flags.count(name) == 0) return false;
    }
    return true;
  };
  const CpuFeatures& features = GetCpuFeatures();

  EXPECT_EQ(features.has_avx2, has_all({"avx2", "fma", "f16c"}));
  EXPECT_EQ(features.has_avx_vnni, has_all({"avx2", "avx_vnni"}));
  EXPECT_EQ(features.has_avx512, has_all({"avx512f", "avx512bw", "avx512vl", "avx512dq"}));
  EXPECT_EQ(features.has_avx512_vnni, has_all({"avx512f", "avx512_vnni"}));
  EXPECT_EQ(features.has_neon_dotprod, has_all({"asimddp"}));
}

#if defined(__aarch64__)
TEST(CpuFeaturesTest, DotProductIsWhatTheIdRegisterSays) {
  uint64_t isar0;
  asm("mrs %0, ID_AA64ISAR0_EL1" : "=r"(isar0));  // User programs may read it since Linux 4.11.

  EXPECT_EQ(GetCpuFeatures().has_neon_dotprod, ((isar0 >> 44) & 15) != 0);
}
#endif

TEST(CpuFeaturesTest, WiderTargetsImplyNarrowerOnes) {
  const CpuFeatures& features = GetCpuFeatures();

  EXPECT_TRUE(features.has_avx512 || !features.has_avx512_vnni);
  EXPECT_TRUE(features.has_avx2 || !features.has_avx512);
  EXPECT_TRUE(features.has_avx2 || !features.has_avx_vnni);
}

TEST(CpuFeaturesTest, BrandIsOneTidyLine) {
  const std::string& brand = GetCpuFeatures().brand;

  ASSERT_FALSE(brand.empty());
  EXPECT_NE(brand.front(), ' ');
  EXPECT_NE(brand.back(), ' ');
  EXPECT_EQ(brand.find('\0'), std::string::npos);
}

}  // namespace
}  // namespace kvern
