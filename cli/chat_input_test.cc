#include "cli/chat_input.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace kvern::cli {
namespace {

using ::testing::Eq;
using ::testing::Optional;

TEST(MessageLinesTest, ALineIsAText) {
  MessageLines lines;

  EXPECT_THAT(lines.Push("hello"), Optional(Eq("hello")));
  EXPECT_THAT(lines.Push(""), Optional(Eq("")));
  EXPECT_FALSE(lines.is_open());
  EXPECT_EQ(lines.Finish(), std::nullopt);
}

TEST(MessageLinesTest, ABackslashGoesOnInTheNextLine) {
  MessageLines lines;

  EXPECT_EQ(lines.Push("one\\"), std::nullopt);
  EXPECT_TRUE(lines.is_open());
  EXPECT_EQ(lines.Push("\\"), std::nullopt);
  EXPECT_THAT(lines.Push("\"\"\"three"), Optional(Eq("one\n\n\"\"\"three")));
  EXPECT_FALSE(lines.is_open());
}

TEST(MessageLinesTest, QuotesHoldLinesAsTheyAre) {
  MessageLines lines;

  EXPECT_EQ(lines.Push("\"\"\""), std::nullopt);
  EXPECT_EQ(lines.Push("/quit\\"), std::nullopt);
  EXPECT_EQ(lines.Push(""), std::nullopt);
  EXPECT_THAT(lines.Push("\"\"\""), Optional(Eq("/quit\\\n")));

  EXPECT_EQ(lines.Push("\"\"\"a"), std::nullopt);
  EXPECT_THAT(lines.Push("b\"\"\""), Optional(Eq("a\nb")));
  EXPECT_THAT(lines.Push("\"\"\"one line\"\"\""), Optional(Eq("one line")));
}

TEST(MessageLinesTest, TheEndOfInputKeepsWhatHasCome) {
  MessageLines lines;
  lines.Push("\"\"\"a");

  EXPECT_THAT(lines.Finish(), Optional(Eq("a\n")));
  EXPECT_FALSE(lines.is_open());

  lines.Push("dropped\\");
  lines.Clear();
  EXPECT_THAT(lines.Push("b"), Optional(Eq("b")));
}

TEST(ParseSlashCommandTest, SplitsNameAndArgument) {
  const auto save = ParseSlashCommand("/save  my file.json ");
  ASSERT_TRUE(save.has_value());
  EXPECT_EQ(save->name, "save");
  EXPECT_EQ(save->argument, "my file.json");
  EXPECT_EQ(ParseSlashCommand("/stats")->argument, "");
  EXPECT_EQ(ParseSlashCommand("/")->name, "");
}

TEST(ParseSlashCommandTest, OnlySystemHasSeveralLines) {
  EXPECT_EQ(ParseSlashCommand("/system one\ntwo")->argument, "one\ntwo");
  EXPECT_EQ(ParseSlashCommand("/quit\nis a command"), std::nullopt);
}

TEST(ParseSlashCommandTest, TwoSlashesBeginAMessage) {
  EXPECT_EQ(ParseSlashCommand("//etc/passwd"), std::nullopt);
  EXPECT_EQ(ParseSlashCommand("a / b"), std::nullopt);
  EXPECT_EQ(MessageOf("//etc/passwd"), "/etc/passwd");
  EXPECT_EQ(MessageOf("a // b"), "a // b");
}

}  // namespace
}  // namespace kvern::cli
