#include "kernels/dispatch.h"

#include <gmock/gmock.h>

#include "platform/cpu_features.h"

namespace kvern {
namespace {

using ::testing::HasSubstr;

TEST(DispatchTest, GenericAlwaysRunsAndComesFirst) {
  ASSERT_FALSE(RunnableTargets().empty());
  EXPECT_STREQ(RunnableTargets().front()->name, "generic");
}

TEST(DispatchTest, AutoAndTheEmptyNameChooseTheBestTarget) {
  EXPECT_EQ(ChooseTarget("auto").value(), RunnableTargets().back());
  EXPECT_EQ(ChooseTarget("").value(), RunnableTargets().back());
}

TEST(DispatchTest, EveryRunnableTargetIsChosenByItsName) {
  for (const KernelTable* target : RunnableTargets()) EXPECT_EQ(ChooseTarget(target->name).value(), target);
}

TEST(DispatchTest, ATargetIsOfferedWhereTheCpuHasItsInstructions) {
  const CpuFeatures& cpu = GetCpuFeatures();

  EXPECT_EQ(ChooseTarget("avx2").ok(), cpu.has_avx2);
  EXPECT_EQ(ChooseTarget("avx2-vnni").ok(), cpu.has_avx_vnni);
  EXPECT_EQ(ChooseTarget("avx512").ok(), cpu.has_avx512);
  EXPECT_EQ(ChooseTarget("avx512-vnni").ok(), cpu.has_avx512_vnni);
  EXPECT_EQ(ChooseTarget("neon").ok(), cpu.has_neon_dotprod);
}

TEST(DispatchTest, AnUnknownNameOrATargetOfAnotherCpuIsAnErrorThatListsWhatThereIs) {
  const char* const foreign = GetCpuFeatures().has_neon_dotprod ? "avx2" : "neon";
  for (const std::string name : {"sse9", foreign}) {
    const Status status = ChooseTarget(name).status();

    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
    EXPECT_THAT(status.message(), HasSubstr(name));
    for (const KernelTable* target : RunnableTargets()) EXPECT_THAT(status.message(), HasSubstr(target->name));
  }
}

}  // namespace
}  // namespace kvern
