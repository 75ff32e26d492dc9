#include "server/json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

namespace kvern::server {
namespace {

using ::testing::HasSubstr;

std::string ErrorOf(const std::string& text) { return ParseJson(text).status().message(); }

TEST(JsonTest, ReadsWhatItWrites) {
  const std::string text = R"({"b":1,"a":[true,null,"é\u0000x",-2.5]})";

  EXPECT_EQ(DumpJson(ParseJson(text).value()), text);
}

TEST(JsonTest, MalformedTextIsAnErrorWithItsPlace) {
  EXPECT_THAT(ErrorOf(""), HasSubstr("is no JSON"));
  EXPECT_THAT(ErrorOf("{\"a\": }"), HasSubstr("column 7"));
  EXPECT_THAT(ErrorOf("{\"a\": 1} x"), HasSubstr("is no JSON"));
  EXPECT_THAT(ErrorOf("\"\xff\""), HasSubstr("UTF-8"));
  EXPECT_THAT(ErrorOf("\"\xc3\""), HasSubstr("is no JSON"));
  EXPECT_THAT(ErrorOf(R"("\ud800")"), HasSubstr("is no JSON"));
  EXPECT_THAT(ErrorOf(std::string("\"a\0b\"", 5)), HasSubstr("is no JSON"));
  EXPECT_THAT(ErrorOf("1e999"), HasSubstr("number"));
  EXPECT_THAT(ErrorOf("\"abc\\"), HasSubstr("is no JSON"));
}

TEST(JsonTest, ErrorsTellThePlaceAndNotTheText) {
  EXPECT_EQ(ErrorOf(R"({"prompt": "my secret)"),
            "is no JSON: parse error at line 1, column 22: syntax error while parsing value - invalid string: missing "
            "closing quote");
  EXPECT_LT(ErrorOf(std::string(1'000'000, '7')).size(), 300u);
}

TEST(JsonTest, WhatIsShownIsCutBetweenCharacters) {
  EXPECT_EQ(ShortText("abc", 3), "abc");
  EXPECT_EQ(ShortText("abcd", 3), "abc...");
  EXPECT_EQ(ShortText("aé", 2), "a...");
  EXPECT_EQ(ShowJson(Json(std::string(1000, 'x'))), "\"" + std::string(199, 'x') + "...");
}

TEST(JsonTest, MembersAreAddedToText) {
  std::string text = "[{}";
  AppendMember(text, "a", "[1]");
  AppendMember(text, "b", "null");
  EXPECT_EQ(text, R"([{"a":[1],"b":null})");
}

TEST(JsonTest, DepthIsBounded) {
  const auto nested = [](size_t depth) { return std::string(depth, '[') + std::string(depth, ']'); };

  EXPECT_TRUE(ParseJson(nested(kMaxJsonDepth)).ok());
  EXPECT_EQ(ErrorOf(nested(kMaxJsonDepth + 1)), "is nested deeper than 64 levels at byte 64");
  EXPECT_THAT(ErrorOf(std::string(10'000'000, '[')), HasSubstr("nested deeper"));
  std::string objects;
  for (int i = 0; i < 100'000; ++i) objects += "{\"a\":";
  EXPECT_THAT(ErrorOf(objects), HasSubstr("nested deeper"));
  EXPECT_TRUE(ParseJson("\"" + std::string(1000, '[') + "\\\"[[\"").ok());  // In strings brackets are letters.
}

TEST(JsonTest, ValuesAndKeysAreBounded) {
  std::string list = "[0", object = "{\"k\":0";
  for (size_t i = 0; i < kMaxJsonValues; ++i) list += ",0";
  for (size_t i = 0; i < kMaxJsonKeys; ++i) object += ",\"" + std::to_string(i) + "\":0";

  EXPECT_THAT(ErrorOf(list + "]"), HasSubstr("more than 1048576 values"));
  EXPECT_THAT(ErrorOf(object + "}"), HasSubstr("more than 1024 keys"));
}

TEST(JsonTest, OfEqualKeysTheLastCounts) { EXPECT_EQ(DumpJson(ParseJson(R"({"a":1,"a":2})").value()), R"({"a":2})"); }

TEST(JsonTest, WhatJsonCannotHoldIsReplaced) {
  EXPECT_EQ(DumpJson(Json("a\xff")), "\"a\xef\xbf\xbd\"");
  EXPECT_EQ(DumpJson(Json(std::numeric_limits<double>::infinity())), "null");
}

}  // namespace
}  // namespace kvern::server
