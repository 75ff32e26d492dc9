#include "bench/replay/trace.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

namespace kvern::bench {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

Result<Trace> Read(const std::string& lines) {
  const std::string path = ::testing::TempDir() + "/trace.jsonl";
  std::ofstream(path) << lines;
  return ReadTrace(path);
}

TEST(ReadTraceTest, ALineIsARequest) {
  const Trace trace = Read(
                          "{\"input_length\": 513, \"hash_ids\": [7, 8], \"timestamp\": 3}\n"
                          "{\"input_length\": 512, \"hash_ids\": [9]}\n")
                          .value();

  EXPECT_EQ(trace.name, "trace");
  EXPECT_EQ(trace.input_tokens, 1025u);
  ASSERT_EQ(trace.requests.size(), 2u);
  EXPECT_THAT(trace.requests[0].ids, ElementsAre(7, 8));
}

TEST(ReadTraceTest, WhatIsNoTraceIsRefusedWithItsLine) {
  const std::string good = "{\"input_length\": 1, \"hash_ids\": [7]}\n";
  EXPECT_THAT(Read(good + "{").status().message(), HasSubstr("trace.jsonl:2: expected an object"));
  EXPECT_THAT(Read(good + "{\"input_length\": -1, \"hash_ids\": []}").status().message(), HasSubstr(":2: expected"));
  EXPECT_THAT(Read("{\"input_length\": 513, \"hash_ids\": [7]}").status().message(),
              HasSubstr(":1: 1 ids for 513 tokens, expected 2"));
  // So many that the number of their blocks overflows where it is rounded up carelessly.
  EXPECT_THAT(Read("{\"input_length\": 18446744073709551615, \"hash_ids\": []}").status().message(),
              HasSubstr("expected 36028797018963968"));
  EXPECT_THAT(Read("").status().message(), HasSubstr("no request"));
  EXPECT_EQ(ReadTrace("/absent").status().code(), StatusCode::kNotFound);
}

TEST(TokensOfTest, EqualIdsGiveEqualTokens) {
  std::vector<TokenId> a, b;
  TokensOf({.input_tokens = 600, .ids = {1, 2}}, a);
  TokensOf({.input_tokens = 512, .ids = {1}}, b);

  ASSERT_EQ(a.size(), 600u);
  EXPECT_EQ(b, std::vector<TokenId>(a.begin(), a.begin() + 512));
  TokensOf({.input_tokens = 512, .ids = {2}}, b);
  EXPECT_NE(b, std::vector<TokenId>(a.begin(), a.begin() + 512));
}

TEST(IdealHitTokensTest, TheBlocksUsedLastStayAndPrefixesGoLast) {
  const auto request = [](std::vector<uint64_t> ids) {
    return TraceRequest{.input_tokens = kTraceBlockTokens * ids.size(), .ids = ids};
  };
  // The second request finds 1 and 2. The third finds none: of three blocks 5 stays, and 1 and 2, the prefix of those
  // that were used together with 4.
  const Trace trace = {.name = "t",
                       .requests = {request({1, 2, 3}), request({1, 2, 4}), request({5}), request({1, 2, 4})}};

  EXPECT_EQ(IdealHitTokens(trace, 3), (2u + 0 + 2) * kTraceBlockTokens);
  EXPECT_EQ(IdealHitTokens(trace, 100), (2u + 0 + 3) * kTraceBlockTokens);
  EXPECT_EQ(IdealHitTokens(trace, 0), 0u);
}

}  // namespace
}  // namespace kvern::bench
