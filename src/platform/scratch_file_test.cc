#include "platform/scratch_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <vector>

namespace kvern {
namespace {

using ::testing::HasSubstr;

TEST(ScratchFileTest, ReadsBackWhatWasWrittenAndLeavesNothingBehind) {
  std::string directory = ::testing::TempDir() + "kvern-scratch-XXXXXX";
  ASSERT_NE(::mkdtemp(directory.data()), nullptr);
  {
    const auto file = CreateScratchFile(directory).value();
    const std::vector<uint8_t> bytes = {1, 2, 3, 4};
    ASSERT_TRUE(file->Write(1 << 20, bytes).ok());
    std::vector<uint8_t> read(4);

    ASSERT_TRUE(file->Read(1 << 20, read).ok());

    EXPECT_EQ(read, bytes);
    EXPECT_TRUE(std::filesystem::is_empty(directory));
    EXPECT_EQ(file->Read((1 << 20) + 2, read).code(), StatusCode::kIoError);
  }
  std::filesystem::remove_all(directory);
}

TEST(ScratchFileTest, AnAbsentDirectoryIsNamed) {
  const Status status = CreateScratchFile("/no/such/place").status();

  EXPECT_EQ(status.code(), StatusCode::kNotFound);
  EXPECT_THAT(status.message(), HasSubstr("/no/such/place"));
}

}  // namespace
}  // namespace kvern
