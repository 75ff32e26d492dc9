#include "server/http_format.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace kvern::server {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

const std::chrono::system_clock::time_point kNow{std::chrono::seconds(784111777)};  // The example of RFC 9110.

TEST(HttpFormatTest, HeadOfABodyOfKnownLength) {
  HttpResponse response{.status = 404, .headers = {{"Content-Type", "application/json"}}, .body = {}};

  EXPECT_EQ(FormatHead(response, BodyFraming::kLength, 12, /*keeps_alive=*/true, kNow),
            "HTTP/1.1 404 Not Found\r\n"
            "Date: Sun, 06 Nov 1994 08:49:37 GMT\r\n"
            "Content-Type: application/json\r\n"
            "Content-Length: 12\r\n"
            "Connection: keep-alive\r\n\r\n");
}

TEST(HttpFormatTest, ABodyThatEndsByClosingKeepsNothingAlive) {
  const std::string head = FormatHead({}, BodyFraming::kClose, 0, /*keeps_alive=*/true, kNow);

  EXPECT_THAT(head, HasSubstr("Connection: close\r\n"));
  EXPECT_THAT(head, Not(HasSubstr("Content-Length")));
}

TEST(HttpFormatTest, AChunkedBodySaysSo) {
  EXPECT_THAT(FormatHead({}, BodyFraming::kChunked, 0, true, kNow), HasSubstr("Transfer-Encoding: chunked\r\n"));
  EXPECT_EQ(FormatChunk("0123456789abcdefg"), "11\r\n0123456789abcdefg\r\n");
  EXPECT_EQ(FormatChunk(""), "");
}

TEST(HttpFormatTest, AHeaderValueCannotBeginAnotherHeader) {
  HttpResponse response{.headers = {{"X-Request-Id", "a\r\nSet-Cookie: b"}}};

  EXPECT_THAT(FormatHead(response, BodyFraming::kLength, 0, true, kNow), HasSubstr("X-Request-Id: aSet-Cookie: b\r\n"));
}

TEST(HttpFormatTest, PathLeavesOutHostAndQuery) {
  EXPECT_EQ(PathOf("/v1/models?x=/y"), "/v1/models");
  EXPECT_EQ(PathOf("http://host:80/v1/models?x"), "/v1/models");
  EXPECT_EQ(PathOf("http://host"), "/");
  EXPECT_EQ(PathOf("*"), "*");
  EXPECT_EQ(PathOf(""), "");
}

TEST(HttpFormatTest, EscapesOfAPathAreDecoded) {
  EXPECT_EQ(PercentDecode("my%20model%2Fv1"), "my model/v1");
  EXPECT_EQ(PercentDecode("%4a%4A+%00x").size(), 5u);
  for (const char* text : {"100%", "%2", "%zz", "%-1", "%%", ""}) EXPECT_EQ(PercentDecode(text), text);
}

}  // namespace
}  // namespace kvern::server
