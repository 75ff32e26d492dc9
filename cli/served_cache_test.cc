#include "cli/served_cache.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace kvern::cli {
namespace {

using server::Json;
using ::testing::HasSubstr;
using ::testing::Not;

Json Parse(const char* text) { return server::ParseJson(text).value(); }

TEST(HoldingTextTest, TokensOfPromptsAddUpAndSequencesAreShown) {
  const std::string text = HoldingText(Parse(R"({
      "model": "m", "block_tokens": 64,
      "blocks": {"total": 16, "free": 13, "filling": 1, "full": 0, "idle": 2}, "bytes": {"total": 16384},
      "sequences": {"running": 1, "queued": 3},
      "prompts": {"lookup_tokens": 47, "hit_tokens": 25, "first_time_tokens": 11, "evicted_tokens": 7,
                  "diverged_tokens": 6, "last_tokens": 1},
      "tenants": [{"salt": "", "tokens": 70, "blocks": 3, "idle_blocks": 2, "bytes": 3072, "lookup_tokens": 47}]})"));

  EXPECT_THAT(text, HasSubstr("m: 16.0 KiB in 16 blocks of 64 tokens: 13 free, 1 filling, 0 full, 2 idle"));
  EXPECT_THAT(text, HasSubstr("1 sequence running, 3 waiting\n"));
  EXPECT_THAT(text, HasSubstr("50 prompt tokens: 25 found (50 %); computed: 11 for the first time, 7 evicted before, "
                              "6 after a difference, 1 as the last one"));
  EXPECT_THAT(text, HasSubstr("(everybody)"));
  EXPECT_THAT(text, HasSubstr("3.0 KiB"));
}

TEST(HoldingTextTest, AnEmptyCacheIsOne) {
  EXPECT_THAT(HoldingText(Json::object()), HasSubstr("\n0 prompt tokens\n"));
  EXPECT_THAT(HoldingText(Json::object()), HasSubstr("nothing is cached yet"));
}

TEST(CausesTextTest, ARequestHasItsCausesAndItsDivergence) {
  const std::string text = CausesText(Parse(R"({"data": [
      {"request_id": "r1", "prompt_causes": {"found": 63, "diverged": 36, "last_token": 1},
       "divergence": {"position": 63, "cached": "a\n", "prompt": "b"}},
      {"request_id": "r2", "divergence": null},
      {"request_id": "r3", "divergence": {"position": 5, "cached": null, "prompt": "c"}}]})"));

  EXPECT_THAT(text, HasSubstr("r1: 100 prompt tokens: 63 found (63 %); computed: 36 after a difference, 1 as the last "
                              "one, which always is\n"));
  EXPECT_THAT(text, HasSubstr("  from token 63 on the cache has \"a\\n\", the prompt \"b\"\n"));
  EXPECT_THAT(text, HasSubstr("r2: 0 prompt tokens\n"));
  EXPECT_THAT(text, HasSubstr("  from token 5 on the cache has what another tenant sent, the prompt \"c\"\n"));
  EXPECT_EQ(CausesText(Json::object()), "no request has come yet\n");
}

TEST(ClearedTextTest, SaysWhatIsFree) {
  EXPECT_EQ(ClearedText(Parse(R"({"freed_bytes": 3072})")), "3.0 KiB are free again\n");
  EXPECT_EQ(ClearedText(Parse(R"({"freed_bytes": "many"})")), "0 B are free again\n");
}

TEST(ServedCacheTest, WhatAServerSaysCannotReachTheTerminal) {
  const Json cache = {{"model", "\x1B[2J"}, {"tenants", {{{"salt", "\x1B]0;x\x07"}}, "no object"}}};
  const Json requests = {{"data", {7, {{"request_id", "\x1B[31m"}}}}};

  EXPECT_THAT(HoldingText(cache), Not(HasSubstr("\x1B")));
  EXPECT_THAT(CausesText(requests), Not(HasSubstr("\x1B")));
}

}  // namespace
}  // namespace kvern::cli
