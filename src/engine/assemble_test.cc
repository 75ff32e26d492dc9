// What Engine::Open refuses before it reads a model.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kvern/diagnostics.h"
#include "kvern/engine.h"

namespace kvern {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;

Status OpenStatus(const EngineOptions& options) { return Engine::Open(options).status(); }

EngineOptions AbsentModel() {
  EngineOptions options;
  options.model_path = "there/is/no/such/model.gguf";
  return options;
}

TEST(EngineOpenTest, AnAbsentModelIsNamed) {
  const Status status = OpenStatus(AbsentModel());

  EXPECT_EQ(status.code(), StatusCode::kNotFound);
  EXPECT_THAT(status.message(), HasSubstr("there/is/no/such/model.gguf"));
  EXPECT_EQ(InspectModel("there/is/no/such/model.gguf").status().code(), StatusCode::kNotFound);
}

TEST(EngineOpenTest, MoreThreadsThanCpusAreRefusedWithBothNumbers) {
  EngineOptions options = AbsentModel();
  options.num_threads = UsableCpuCount() + 1;

  const Status status = OpenStatus(options);

  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(status.message(), HasSubstr("num_threads is " + std::to_string(UsableCpuCount() + 1)));
  EXPECT_THAT(status.message(), HasSubstr("may use " + std::to_string(UsableCpuCount()) + " CPUs"));
}

TEST(EngineOpenTest, AnUnknownTargetIsRefused) {
  EngineOptions options = AbsentModel();
  options.isa = "sse9";

  const Status status = OpenStatus(options);

  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(status.message(), HasSubstr("sse9"));
}

TEST(EngineOpenTest, BadOptionsAreRefused) {
  EngineOptions options = AbsentModel();
  options.cache.block_size = 17;

  EXPECT_EQ(OpenStatus(options).code(), StatusCode::kInvalidArgument);
}

TEST(DiagnosticsTest, TheMachineIsDescribed) {
  EXPECT_THAT(RunnableIsas(), Contains("generic"));
  EXPECT_GE(UsableCpuCount(), 1u);
  EXPECT_GT(PeakMemoryBytes(), 0u);
}

}  // namespace
}  // namespace kvern
