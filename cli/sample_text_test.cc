#include "cli/sample_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <zlib.h>

#include <filesystem>
#include <fstream>

namespace kvern::cli {
namespace {

using ::testing::HasSubstr;

class SampleTextTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = testing::TempDir() + "kvern-text-XXXXXX";
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    directory_ = pattern;
    for (int i = 0; i < 20000; ++i) text_ += "line " + std::to_string(i * 7919 % 10007) + "\n";
    const gzFile file = gzopen(packed().c_str(), "wb");
    ASSERT_EQ(gzwrite(file, text_.data(), static_cast<unsigned>(text_.size())), static_cast<int>(text_.size()));
    ASSERT_EQ(gzclose(file), Z_OK);
  }
  void TearDown() override { std::filesystem::remove_all(directory_); }
  std::string packed() const { return directory_ + "/text.gz"; }

  std::string directory_;
  std::string text_;
};

TEST_F(SampleTextTest, PlainAndPackedFilesGiveTheSameText) {
  std::ofstream(directory_ + "/text.txt") << text_;

  EXPECT_EQ(ReadSampleText(directory_ + "/text.txt").value(), text_);
  EXPECT_EQ(ReadSampleText(packed()).value(), text_);
}

TEST_F(SampleTextTest, ACutOrDamagedArchiveIsRefused) {
  std::filesystem::resize_file(packed(), std::filesystem::file_size(packed()) / 2);
  EXPECT_EQ(ReadSampleText(packed()).status().code(), StatusCode::kCorruption);

  std::fstream file(packed(), std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(20);
  file << "garbage garbage";
  file.close();
  EXPECT_THAT(ReadSampleText(packed()).status().message(), HasSubstr("text.gz"));
}

TEST_F(SampleTextTest, AnAbsentFileIsNamed) {
  const Status status = ReadSampleText(directory_ + "/absent").status();

  EXPECT_EQ(status.code(), StatusCode::kNotFound);
  EXPECT_THAT(status.message(), HasSubstr("absent"));
}

}  // namespace
}  // namespace kvern::cli
