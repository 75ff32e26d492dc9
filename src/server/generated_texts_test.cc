#include "server/generated_texts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace kvern::server {
namespace {

using testing::ElementsAre;

TEST(GeneratedTextsTest, TheLongestTextThatAPromptGoesOnFromIsFound) {
  GeneratedTexts texts;
  texts.Add("a", "one two", {1, 2});
  texts.Add("a", "one two three", {1, 2, 3});
  texts.Add("a", "one t", {9});

  const auto found = texts.Find("a", "one two three four");

  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->num_bytes, 13u);
  EXPECT_THAT(found->tokens, ElementsAre(1, 2, 3));
}

TEST(GeneratedTextsTest, AnotherSaltAndTheSameTextFindNothing) {
  GeneratedTexts texts;
  texts.Add("a", "one", {1});

  EXPECT_FALSE(texts.Find("b", "one two").has_value());
  EXPECT_FALSE(texts.Find("a", "one").has_value());
}

TEST(GeneratedTextsTest, TheOldestLeaveWhenThereAreTooManyBytes) {
  GeneratedTexts texts;
  texts.Add("a", "old", {1});
  for (int i = 0; i < 20; ++i) texts.Add("a", std::string(1 << 20, 'x'), {2});

  EXPECT_FALSE(texts.Find("a", "old and new").has_value());
}

}  // namespace
}  // namespace kvern::server
