#include "cli/model_path.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

namespace kvern::cli {
namespace {

using ::testing::HasSubstr;

class ChooseModelTest : public ::testing::Test {
 protected:
  void SetUp() override {
    directory_ =
        ::testing::TempDir() + "kvern_choose_model_" + ::testing::UnitTest::GetInstance()->current_test_info()->name();
    std::filesystem::remove_all(directory_);
    std::filesystem::create_directories(directory_);
  }
  void TearDown() override { std::filesystem::remove_all(directory_); }
  void Touch(const std::string& name) { std::ofstream(directory_ + "/" + name).put('x'); }

  std::string directory_;
};

TEST_F(ChooseModelTest, TheOptionComesBeforeTheEnvironmentBeforeTheDirectory) {
  Touch("only.gguf");

  EXPECT_EQ(*ChooseModel("given", "environment", directory_), "given");
  EXPECT_EQ(*ChooseModel("", "environment", directory_), "environment");
  EXPECT_EQ(*ChooseModel("", "", directory_), directory_ + "/only.gguf");
}

TEST_F(ChooseModelTest, OtherFilesDoNotCount) {
  Touch("only.gguf");
  Touch("only.gguf.part");
  Touch("notes.txt");

  EXPECT_EQ(*ChooseModel("", "", directory_), directory_ + "/only.gguf");
}

TEST_F(ChooseModelTest, TwoFilesAreListedAndTheUserIsAsked) {
  Touch("a.gguf");
  Touch("b.gguf");

  const Result<std::string> model = ChooseModel("", "", directory_);

  EXPECT_EQ(model.status().code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(model.status().message(), HasSubstr("a.gguf\n  " + directory_ + "/b.gguf"));
  EXPECT_THAT(model.status().message(), HasSubstr("-m FILE"));
}

TEST_F(ChooseModelTest, NoFileSaysHowToGetOne) {
  EXPECT_THAT(ChooseModel("", "", directory_).status().message(), HasSubstr("scripts/fetch_model.sh"));
  EXPECT_THAT(ChooseModel("", "", directory_ + "/absent").status().message(), HasSubstr("absent"));
}

}  // namespace
}  // namespace kvern::cli
