#include "kvern/request.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

namespace kvern {
namespace {

using ::testing::HasSubstr;

Request GoodRequest() { return {.prompt = {1, 2, 3}}; }

void ExpectRefused(const Status& status, const std::string& message) {
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(status.message(), HasSubstr(message));
}

TEST(RequestTest, DefaultsAreValid) { EXPECT_TRUE(GoodRequest().Validate().ok()); }

TEST(RequestTest, EmptyPromptIsRefused) { ExpectRefused(Request().Validate(), "prompt: has no tokens"); }

TEST(RequestTest, SamplingOutsideItsRangeIsRefusedWithTheNumber) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  ExpectRefused(SamplingOptions{.temperature = -1}.Validate(), "temperature is -1");
  ExpectRefused(SamplingOptions{.temperature = nan}.Validate(), "temperature is nan");
  ExpectRefused(SamplingOptions{.top_p = 0}.Validate(), "top_p is 0");
  ExpectRefused(SamplingOptions{.top_p = 1.5f}.Validate(), "top_p is 1.5");
  ExpectRefused(SamplingOptions{.top_p = nan}.Validate(), "top_p is nan");
  ExpectRefused(SamplingOptions{.min_p = -0.1f}.Validate(), "min_p is -0.1");
  ExpectRefused(SamplingOptions{.repeat_penalty = 0}.Validate(), "repeat_penalty is 0");
  ExpectRefused(SamplingOptions{.logit_bias = {{1, 0}, {2, nan}}}.Validate(), "logit_bias[1] is nan");
}

TEST(RequestTest, StopStringsMustBeFewFullAndWellFormed) {
  Request request = GoodRequest();
  request.stop = {"a", ""};
  ExpectRefused(request.Validate(), "stop[1]: is empty");

  request.stop = {"ab\xC3"};
  ExpectRefused(request.Validate(), "stop[0]: is no UTF-8 at byte 2");

  request.stop.assign(17, "a");
  ExpectRefused(request.Validate(), "17 strings, expected at most 16");

  request.stop = {"\xC3\xA9", "</s>"};
  EXPECT_TRUE(request.Validate().ok());
}

}  // namespace
}  // namespace kvern
