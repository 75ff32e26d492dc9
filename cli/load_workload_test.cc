#include "cli/load_workload.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

namespace kvern::cli {
namespace {

using ::testing::HasSubstr;
using Json = nlohmann::ordered_json;

std::string Text() {
  std::string text;
  for (int i = 0; i < 500; ++i) text += "word" + std::to_string(i) + (i % 10 == 9 ? "\n" : "  ");
  return text;
}

Workload MakeWorkload(const LoadPlan& plan) { return Workload::Create(plan, Text()).value(); }

TEST(WorkloadTest, TheSeedDecidesTheTexts) {
  const Workload a = MakeWorkload({.seed = 1}), b = MakeWorkload({.seed = 1}), c = MakeWorkload({.seed = 2});

  EXPECT_EQ(a.UserText(3, 4), b.UserText(3, 4));
  EXPECT_NE(a.UserText(3, 4), c.UserText(3, 4));
}

TEST(WorkloadTest, LengthsFollowTheBytesPerToken) {
  Workload workload = MakeWorkload({.prompt_tokens = 1000, .shared_tokens = 300});
  workload.SetBytesPerToken(3.5);

  EXPECT_NEAR(static_cast<double>(workload.UserText(0, 0).size()), 3500, 10);  // Whole words, beyond the text's end.
  EXPECT_NEAR(static_cast<double>(workload.SharedText().size()), 1050, 10);
}

TEST(WorkloadTest, TheSampleIsFromAllOverTheText) {
  std::string text = "begin";  // A beginning that is unlike the rest.
  for (int i = 0; i < 200; ++i) text += " ----------";
  for (int i = 0; i < 1800; ++i) text += " word";
  const Workload workload = Workload::Create({}, text).value();

  const std::string sample = workload.SampleText(2000);

  EXPECT_NEAR(static_cast<double>(sample.size()), 2000, 11);
  const auto dashes = static_cast<double>(std::ranges::count(sample, '-'));
  EXPECT_NEAR(dashes / 10 / (dashes / 10 + static_cast<double>(std::ranges::count(sample, 'w'))), 0.1, 0.05);
}

TEST(WorkloadTest, NoTwoTextsBeginAlike) {
  const Workload workload = MakeWorkload({});
  std::set<std::string> beginnings;
  for (uint64_t conversation = 0; conversation < 1000; ++conversation) {
    for (uint32_t turn = 0; turn < 3; ++turn) beginnings.insert(workload.UserText(conversation, turn).substr(0, 9));
  }
  EXPECT_EQ(beginnings.size(), 3000u);
}

TEST(WorkloadTest, ATextOfAFewWordsIsRefused) {
  EXPECT_THAT(Workload::Create({}, "too short").status().message(), HasSubstr("2 words, at least 100"));
  EXPECT_FALSE(Workload::Create({}, "").ok());
}

TEST(ConversationTest, EachRequestRepeatsAllThatWasSaidBefore) {
  const LoadPlan plan{.shared_tokens = 20, .max_tokens = 5, .num_turns = 2};
  const Workload workload = MakeWorkload(plan);
  Conversation conversation(workload, plan, 7);

  const Json first = Json::parse(conversation.RequestBody("m"));
  EXPECT_EQ(first["prompt"], workload.SharedText() + "\n\n" + workload.UserText(7, 0));
  EXPECT_EQ(first["model"], "m");
  EXPECT_EQ(first["max_tokens"], 5);
  EXPECT_EQ(first["temperature"], 0);
  EXPECT_EQ(first["stream_options"]["include_usage"], true);
  conversation.AddAnswer(" an answer");
  EXPECT_FALSE(conversation.has_ended());
  const std::string second = Json::parse(conversation.RequestBody("m"))["prompt"];
  EXPECT_EQ(second, first["prompt"].get<std::string>() + " an answer\n\n" + workload.UserText(7, 1));
  conversation.AddAnswer("x");
  EXPECT_TRUE(conversation.has_ended());
}

TEST(ConversationTest, AChatIsAListOfMessages) {
  const LoadPlan plan{.shared_tokens = 20, .num_turns = 2, .is_chat = true};
  const Workload workload = MakeWorkload(plan);
  Conversation conversation(workload, plan, 0);

  conversation.AddAnswer("an answer");

  const Json body = Json::parse(conversation.RequestBody("m"));
  EXPECT_FALSE(body.contains("prompt"));
  EXPECT_EQ(body["messages"], Json::array({{{"role", "system"}, {"content", workload.SharedText()}},
                                           {{"role", "user"}, {"content", workload.UserText(0, 0)}},
                                           {{"role", "assistant"}, {"content", "an answer"}},
                                           {{"role", "user"}, {"content", workload.UserText(0, 1)}}}));
}

TEST(ConversationTest, TextThatIsNotUtf8StaysARequest) {
  const LoadPlan plan{.num_turns = 2};
  const Workload workload = MakeWorkload(plan);
  Conversation conversation(workload, plan, 0);

  conversation.AddAnswer("half \xC3");

  EXPECT_THAT(Json::parse(conversation.RequestBody("m"))["prompt"].get<std::string>(),
              HasSubstr("half \xEF\xBF\xBD\n\n"));
}

}  // namespace
}  // namespace kvern::cli
