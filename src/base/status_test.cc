#include "kvern/status.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>

namespace kvern {
namespace {

Result<int> Half(int value) {
  if (value % 2 != 0) return Status::InvalidArgument(std::to_string(value) + " is odd");
  return value / 2;
}

Result<int> Quarter(int value) {
  KVERN_ASSIGN_OR_RETURN(const int half, Half(value));
  KVERN_ASSIGN_OR_RETURN(const int quarter, Half(half));
  return quarter;
}

Status CheckQuarter(int value) {
  KVERN_RETURN_IF_ERROR(Quarter(value).status());
  return Status::Ok();
}

TEST(StatusTest, DefaultIsOk) {
  EXPECT_TRUE(Status().ok());
  EXPECT_EQ(Status::Ok().ToString(), "ok");
}

TEST(StatusTest, TextNamesTheKindAndTheMessage) {
  EXPECT_EQ(Status::Corruption("model.gguf: bad magic").ToString(), "corruption: model.gguf: bad magic");
  EXPECT_EQ(Status::NotFound("x").ToString(), "not found: x");
  EXPECT_EQ(Status::ResourceExhausted("x").ToString(), "resource exhausted: x");
  EXPECT_EQ(Status::Unavailable("x").ToString(), "unavailable: x");
}

TEST(ResultTest, MacrosPassTheFirstErrorOn) {
  EXPECT_EQ(*Quarter(12), 3);
  EXPECT_EQ(Quarter(6).status().message(), "3 is odd");
  EXPECT_EQ(CheckQuarter(7).code(), StatusCode::kInvalidArgument);
  EXPECT_TRUE(CheckQuarter(8).ok());
}

TEST(ResultTest, MovesAMoveOnlyValueOut) {
  Result<std::unique_ptr<int>> result = std::make_unique<int>(7);

  std::unique_ptr<int> value = std::move(result).value();

  EXPECT_EQ(*value, 7);
}

TEST(ResultDeathTest, ValueOfAnErrorEndsTheProcess) {
  Result<int> result = Status::Cancelled("stopped");

  EXPECT_DEATH(static_cast<void>(result.value()), "");
}

}  // namespace
}  // namespace kvern
