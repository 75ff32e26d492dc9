#include "cli/load_answer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace kvern::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

server::HttpResponse Head(unsigned status, const char* type) {
  return {.status = status, .headers = {{"content-type", type}}, .body = ""};
}

std::string Event(const std::string& data) { return "data: " + data + "\n\n"; }
std::string Text(const std::string& text) {
  return Event(R"({"choices":[{"index":0,"text":")" + text + R"(","finish_reason":null}]})");
}
std::string Delta(const std::string& text) {
  return Event(R"({"choices":[{"index":0,"delta":{"content":")" + text + R"("},"finish_reason":null}]})");
}

const char kEnd[] = R"({"choices":[{"index":0,"text":"","finish_reason":"length"}]})";
const char kUsage[] =
    R"({"choices":[],"usage":{"prompt_tokens":9,"completion_tokens":4,"prompt_tokens_details":{"cached_tokens":8}}})";

TEST(AnswerReaderTest, TimesAreThoseOfPiecesOfText) {
  AnswerReader reader(/*begin_ms=*/1000);
  reader.OnHead(Head(200, "text/event-stream; charset=utf-8"));

  reader.OnBody(Text(""), 1040);  // Half a character.
  reader.OnBody(Text("a"), 1050);
  reader.OnBody(":\n\n", 1055);
  const std::string second = Text("b");
  reader.OnBody(second.substr(0, 10), 1060);
  reader.OnBody(second.substr(10), 1070);
  reader.OnBody(Text("c") + Event(kEnd) + Event(kUsage) + Event("[DONE]"), 1075);
  reader.OnEnd(Status::Ok(), 1080, AnswerOutcome::kHungUp);

  const AnswerSample& sample = reader.sample();
  EXPECT_EQ(sample.outcome, AnswerOutcome::kDone) << sample.failure << sample.message;
  EXPECT_EQ(reader.text(), "abc");
  EXPECT_EQ(sample.first_token_ms, 50);
  EXPECT_THAT(sample.gaps_ms, ElementsAre(20, 5));
  EXPECT_EQ(sample.latency_ms, 80);
  EXPECT_EQ(sample.usage.prompt_tokens, 9u);
  EXPECT_EQ(sample.usage.cached_tokens, 8u);
  EXPECT_EQ(sample.answer_tokens(), 4u);
  EXPECT_DOUBLE_EQ(sample.MsPerToken().value(), 25.0 / 3);
}

TEST(AnswerReaderTest, AChatBeginsWithItsFirstTextNotItsRole) {
  AnswerReader reader(0);
  reader.OnHead(Head(200, "text/event-stream"));

  reader.OnBody(Event(R"({"choices":[{"index":0,"delta":{"role":"assistant","content":null}}]})"), 1);
  reader.OnBody(Event(R"({"choices":[{"index":0,"delta":{"role":"assistant","content":""}}]})"), 2);
  reader.OnBody(Event(R"({"choices":[{"index":0,"delta":{"reasoning_content":"so "}}]})"), 3);
  reader.OnBody(Delta("x"), 5);
  reader.OnBody(Event(R"({"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]})"), 6);
  reader.OnEnd(Status::Ok(), 7, AnswerOutcome::kHungUp);

  EXPECT_EQ(reader.sample().outcome, AnswerOutcome::kDone);
  EXPECT_EQ(reader.sample().first_token_ms, 3);
  EXPECT_EQ(reader.text(), "so x");
  EXPECT_FALSE(reader.sample().has_usage);
  EXPECT_EQ(reader.sample().answer_tokens(), 2u);
}

TEST(AnswerReaderTest, AnAnswerThatIsNotStreamedCountsToo) {
  AnswerReader reader(0);
  reader.OnHead(Head(200, "application/json"));
  reader.OnBody(R"({"choices":[{"message":{"content":"hi"},"finish_reason":"stop"}],)", 10);
  reader.OnBody(R"("usage":{"prompt_tokens":3,"completion_tokens":1}})", 11);
  reader.OnEnd(Status::Ok(), 12, AnswerOutcome::kHungUp);

  EXPECT_EQ(reader.sample().outcome, AnswerOutcome::kDone);
  EXPECT_EQ(reader.text(), "hi");
  EXPECT_EQ(reader.sample().usage.prompt_tokens, 3u);
}

// The sample of a reply that comes as one.
AnswerSample Read(unsigned status, const char* type, const std::string& body, const Status& end = {}) {
  AnswerReader reader(0);
  if (status != 0) reader.OnHead(Head(status, type));
  reader.OnBody(body, 1);
  reader.OnEnd(end, 2, AnswerOutcome::kHungUp);
  return reader.sample();
}

TEST(AnswerReaderTest, FailuresSayWhatTheServerSaid) {
  const AnswerSample busy = Read(429, "application/json", R"({"error":{"message":"come again","code":"x"}})");
  EXPECT_EQ(busy.outcome, AnswerOutcome::kFailed);
  EXPECT_EQ(busy.failure, "HTTP 429");
  EXPECT_EQ(busy.message, "come again");

  const AnswerSample late = Read(200, "text/event-stream", Text("a") + Event(R"({"error":{"message":"broke"}})"));
  EXPECT_EQ(late.failure, "error in the stream");
  EXPECT_EQ(late.message, "broke");

  EXPECT_EQ(Read(502, "text/html", "<h1>Bad\ngateway</h1>").message, "<h1>Bad\\ngateway</h1>");
  EXPECT_EQ(Read(200, "text/event-stream", Text("a")).failure, "no answer");
  EXPECT_EQ(Read(200, "text/event-stream", Event("{]")).failure, "no answer");
  EXPECT_EQ(Read(200, "application/json", "{}").failure, "no answer");
  EXPECT_EQ(Read(200, "text/event-stream", Text("a"), Status::IoError("reset")).failure, "cut short");
  EXPECT_EQ(Read(0, "", "", Status::Unavailable("refused")).failure, "no connection");
}

TEST(AnswerReaderTest, OddFieldsAreNoTrouble) {
  for (const char* data : {"1", "null", "[]", "{\"choices\":{}}", "{\"choices\":[1]}", "{\"choices\":[{\"text\":5}]}",
                           "{\"choices\":[{\"delta\":[]}]}", "{\"usage\":{\"prompt_tokens\":-1}}", "{\"usage\":7}"}) {
    const AnswerSample sample = Read(200, "text/event-stream", Event(data) + Event(kEnd));
    EXPECT_EQ(sample.outcome, AnswerOutcome::kDone) << data;
    EXPECT_EQ(sample.num_pieces(), 0u) << data;
    EXPECT_EQ(sample.usage.prompt_tokens, 0u) << data;
  }
}

TEST(AnswerReaderTest, AHangUpIsNoFailure) {
  const AnswerSample sample = Read(200, "text/event-stream", Text("a"), Status::Cancelled("hung up"));
  EXPECT_EQ(sample.outcome, AnswerOutcome::kHungUp);
  EXPECT_THAT(sample.failure, IsEmpty());
  EXPECT_EQ(sample.num_pieces(), 1u);
}

TEST(ReadErrorMessageTest, AnyBodyBecomesALine) {
  EXPECT_EQ(ReadErrorMessage(R"({"error":"plain"})"), "plain");
  EXPECT_THAT(ReadErrorMessage(R"({"error":{"code":5}})"), HasSubstr("\"code\":5"));
  EXPECT_EQ(ReadErrorMessage(""), "");
  EXPECT_LT(ReadErrorMessage(std::string(10'000, 'x')).size(), 400u);
}

}  // namespace
}  // namespace kvern::cli
