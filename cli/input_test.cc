#include "cli/input.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace kvern::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(ReadInputTest, AFileThatIsTooLongIsRefusedBeforeItIsRead) {
  const Status status = ReadInput("/dev/zero", 100'000).status();

  EXPECT_EQ(status.code(), StatusCode::kResourceExhausted);
  EXPECT_THAT(status.message(), HasSubstr("/dev/zero: has more than 100000 bytes"));
  EXPECT_EQ(ReadInput("/dev/null", 0).value(), "");
}

TEST(ParseTokenIdsTest, ReadsJsonArraysAndPlainLists) {
  EXPECT_THAT(*ParseTokenIds("[1, 2,3]\n", 10), ElementsAre(1, 2, 3));
  EXPECT_THAT(*ParseTokenIds("4 5\n6", 10), ElementsAre(4, 5, 6));
  EXPECT_THAT(*ParseTokenIds(" [] ", 10), IsEmpty());
}

TEST(ParseTokenIdsTest, NamesTheFirstIdThatIsNone) {
  EXPECT_THAT(ParseTokenIds("1 two", 10).status().message(), HasSubstr("byte 2: 'two'"));
  EXPECT_THAT(ParseTokenIds("1.5", 10).status().message(), HasSubstr("'1.5'"));
  EXPECT_THAT(ParseTokenIds("99999999999", 10).status().message(), HasSubstr("'99999999999'"));
}

TEST(ParseTokenIdsTest, RefusesIdsOutsideTheVocabulary) {
  EXPECT_TRUE(ParseTokenIds("9", 10).ok());
  EXPECT_THAT(ParseTokenIds("10", 10).status().message(), HasSubstr("outside the vocabulary of 10"));
  EXPECT_FALSE(ParseTokenIds("-1", 10).ok());
}

TEST(ReadInputTest, NamesAFileThatIsNotThere) {
  const Result<std::string> text = ReadInput("no/such/file.txt");

  EXPECT_EQ(text.status().code(), StatusCode::kNotFound);
  EXPECT_THAT(text.status().message(), HasSubstr("no/such/file.txt"));
}

}  // namespace
}  // namespace kvern::cli
