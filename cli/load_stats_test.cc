#include "cli/load_stats.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/own_server.h"

namespace kvern::cli {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

AnswerSample Done(double first_ms, std::vector<float> gaps, AnswerUsage usage) {
  AnswerSample sample{.outcome = AnswerOutcome::kDone, .latency_ms = 100, .first_token_ms = first_ms};
  sample.gaps_ms = std::move(gaps);
  sample.has_usage = true;
  sample.usage = usage;
  return sample;
}

AnswerSample Failed(const char* failure, const char* message) {
  return {.outcome = AnswerOutcome::kFailed, .failure = failure, .message = message};
}

TEST(PercentilesTest, AreTheNearestRank) {
  std::vector<double> values;
  for (int i = 200; i >= 1; --i) values.push_back(i);

  const Percentiles p = PercentilesOf(values);

  EXPECT_EQ(p.count, 200u);
  EXPECT_EQ(p.p50, 100);
  EXPECT_EQ(p.p90, 180);
  EXPECT_EQ(p.p99, 198);
  EXPECT_EQ(p.max, 200);
  EXPECT_EQ(p.mean, 100.5);
}

TEST(PercentilesTest, OfOneValueAreThatValueAndOfNoneZero) {
  const Percentiles one = PercentilesOf({7});
  EXPECT_EQ(one.p50, 7);
  EXPECT_EQ(one.p99, 7);
  EXPECT_EQ(one.max, 7);
  EXPECT_EQ(PercentilesOf({}).count, 0u);
  EXPECT_EQ(PercentilesOf({}).max, 0);
}

TEST(SummarizeTest, TimesAreOfAnswersThatAreWholeAndTokensOfAll) {
  std::vector<AnswerSample> samples;
  samples.push_back(Done(10, {1, 3}, {.prompt_tokens = 20, .cached_tokens = 16, .completion_tokens = 3}));
  samples.push_back(Done(30, {2}, {.prompt_tokens = 10, .cached_tokens = 0, .completion_tokens = 2}));
  samples.push_back({.outcome = AnswerOutcome::kHungUp, .latency_ms = 1e6, .first_token_ms = 5});
  samples.push_back({.outcome = AnswerOutcome::kCut});
  samples.push_back(Failed("HTTP 429", "first"));
  samples.push_back(Failed("HTTP 429", "second"));
  samples.push_back(Failed("cut short", "reset"));

  const LoadSummary summary = Summarize({.samples = samples, .wall_s = 2, .peak_at_once = 4});

  EXPECT_EQ(summary.num_asked, 7u);
  EXPECT_EQ(summary.num_done, 2u);
  EXPECT_EQ(summary.num_hung_up, 1u);
  EXPECT_EQ(summary.num_cut, 1u);
  EXPECT_EQ(summary.num_failed, 3u);
  EXPECT_EQ(summary.failures.at("HTTP 429").count, 2u);
  EXPECT_EQ(summary.failures.at("HTTP 429").message, "first");
  EXPECT_EQ(summary.first_token_ms.count, 2u);
  EXPECT_EQ(summary.first_token_ms.max, 30);
  EXPECT_EQ(summary.gap_ms.count, 3u);
  EXPECT_EQ(summary.gap_ms.p50, 2);
  EXPECT_EQ(summary.latency_ms.max, 100);
  EXPECT_EQ(summary.tokens.prompt_tokens, 30u);
  EXPECT_EQ(summary.tokens.cached_tokens, 16u);
  EXPECT_EQ(summary.tokens_per_s, 3);  // Of 6 tokens, one of them of the answer that was hung up.
  EXPECT_EQ(summary.requests_per_s, 1);
}

TEST(LoadReportTest, ShowsWhatWasMeasuredAndWhatFailed) {
  const LoadTarget target{.url = "http://x", .model = "m"};
  const LoadPlan plan{.num_requests = 2, .rate = 2.5, .num_turns = 3, .disconnect_share = 0.5};
  const std::vector<AnswerSample> samples = {
      Done(12.5, {1}, {.prompt_tokens = 1000, .cached_tokens = 250, .completion_tokens = 2}),
      Failed("HTTP 503", "loading")};
  const LoadSummary summary = Summarize({.samples = samples, .wall_s = 1, .peak_at_once = 1});

  EXPECT_THAT(LoadText(target, plan, summary),
              AllOf(HasSubstr("2.50 conversations a second"), HasSubstr("1 answered, 1 failed"),
                    HasSubstr("time to first token"), HasSubstr("12.5"), HasSubstr("1,000 tokens, 250"),
                    HasSubstr("25.0 %"), HasSubstr("1 x HTTP 503, the first: loading"), Not(HasSubstr("hung up"))));
  const nlohmann::ordered_json json = LoadJson(target, plan, summary);
  EXPECT_EQ(json["requests"]["answered"], 1);
  EXPECT_EQ(json["failures"][0]["kind"], "HTTP 503");
  EXPECT_EQ(json["time_to_first_token_ms"]["p99"], 12.5);
  EXPECT_EQ(json["cached_tokens"], 250);
  EXPECT_EQ(json["plan"]["rate_per_s"], 2.5);
}

TEST(LoadReportTest, WithoutAnyAnswerThereAreNoTimes) {
  const LoadSummary summary =
      Summarize({.samples = {Failed("no connection", "refused")}, .wall_s = 1, .peak_at_once = 1});
  EXPECT_FALSE(summary.has_usage);
  EXPECT_THAT(LoadText({}, {}, summary), AllOf(HasSubstr("0 answered, 1 failed"), HasSubstr("whole answer"),
                                               HasSubstr("-"), HasSubstr("refused")));
}

TEST(LoadReportTest, WhatWasNeverAskedIsSaid) {
  const LoadPlan plan{.duration_s = 4, .rate = 40};
  const LoadSummary summary = Summarize({.samples = {Done(10, {1}, {})}, .wall_s = 4, .num_never_asked = 141});

  EXPECT_THAT(LoadText({}, plan, summary), HasSubstr("never asked: 141 requests that had arrived"));
  EXPECT_EQ(LoadJson({}, plan, summary)["requests"]["never_asked"], 141);
  EXPECT_THAT(LoadText({}, plan, Summarize({})), Not(HasSubstr("never asked")));
}

TEST(OwnServerTest, TheAddressIsReadFromTheLineOfTheServer) {
  EXPECT_EQ(UrlInServingLine("kvern: serving a on b on http://127.0.0.1:123   curl http://x -d '{}'\n"),
            "http://127.0.0.1:123");
  EXPECT_EQ(UrlInServingLine("kvern: serving m on http://[::1]:5\n"), "http://[::1]:5");
  EXPECT_EQ(UrlInServingLine("something else on http://x"), "");
}

}  // namespace
}  // namespace kvern::cli
