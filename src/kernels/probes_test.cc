#include "kernels/probes.h"

#include <gtest/gtest.h>

#include "platform/cpu_features.h"

namespace kvern {
namespace {

TEST(ProbesTest, GivesRatesWhereThereAreProbesAndZerosElsewhere) {
  ThreadPool pool(2);

  const ProbeResult result = ProbeMachine(pool, HeapAllocator(), size_t{1} << 20);

  const bool has_probes = GetCpuFeatures().has_avx2;
  EXPECT_EQ(result.int8_dot_tops > 0, has_probes);
  EXPECT_EQ(result.f32_fma_tflops > 0, has_probes);
  EXPECT_EQ(result.f16_to_f32_tera > 0, has_probes);
  EXPECT_EQ(result.nops_per_ns > 0, has_probes);
  EXPECT_EQ(result.read_gb_per_s > 0, has_probes);
  EXPECT_EQ(result.read_gb_per_s_one > 0, has_probes);
}

TEST(ProbesTest, NoIterationsAreNoOperations) {
  EXPECT_EQ(RunInt8DotProbe(0), 0);
  EXPECT_EQ(RunF32FmaProbe(0), 0);
  EXPECT_EQ(RunF16ConversionProbe(0), 0);
  EXPECT_EQ(RunNopProbe(0), 0);
}

}  // namespace
}  // namespace kvern
