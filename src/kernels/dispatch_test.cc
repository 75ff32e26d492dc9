#include "kernels/dispatch.h"

#include <gmock/gmock.h>

namespace kvern {
namespace {

using ::testing::AllOf;
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

TEST(DispatchTest, AnUnknownNameIsAnErrorThatListsWhatThereIs) {
  const Status status = ChooseTarget("sse9").status();

  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(status.message(), AllOf(HasSubstr("sse9"), HasSubstr("generic")));
}

}  // namespace
}  // namespace kvern
