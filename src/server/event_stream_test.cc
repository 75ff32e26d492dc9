#include "server/event_stream.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace kvern::server {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// All events of `text`, fed `piece` bytes at a time.
std::vector<std::string> Events(std::string_view text, size_t piece) {
  EventStreamReader reader;
  std::vector<std::string> events;
  while (!text.empty()) {
    EXPECT_TRUE(reader.Feed(text.substr(0, piece)).ok());
    text.remove_prefix(std::min(piece, text.size()));
    while (const auto event = reader.Next()) events.push_back(*event);
  }
  return events;
}

TEST(EventStreamReaderTest, EventsAreTheSameHoweverTheBytesAreCut) {
  const std::string text =
      ":\n\ndata: {\"a\": 1}\n\ndata:b\r\n\r\nevent: x\nid: 7\ndata: c\ndata\ndata:  d\n\ndata: [DONE]\n\n";

  for (size_t piece = 1; piece <= text.size(); ++piece) {
    EXPECT_THAT(Events(text, piece), ElementsAre("{\"a\": 1}", "b", "c\n\n d", "[DONE]")) << piece;
  }
}

TEST(EventStreamReaderTest, CommentsUnknownFieldsAndEventsWithoutDataSayNothing) {
  EXPECT_THAT(Events(":alive\n\nevent: ping\n\nretry: 10\ndatabase: x\n\n\n\n", 100), IsEmpty());
}

TEST(EventStreamReaderTest, AnEventWithoutItsEmptyLineHasNotCome) {
  EXPECT_THAT(Events("data: a\n\ndata: b\n", 100), ElementsAre("a"));
}

TEST(EventStreamReaderTest, AnEventWithoutEndIsRefused) {
  EventStreamReader reader;
  const std::string line = "data: " + std::string(1u << 20, 'x') + "\n";

  Status status;
  for (int i = 0; i < 17 && status.ok(); ++i) {
    status = reader.Feed(line);
    EXPECT_EQ(reader.Next(), std::nullopt);
  }

  EXPECT_EQ(status.code(), StatusCode::kResourceExhausted);
  EXPECT_THAT(status.message(), HasSubstr(std::to_string(EventStreamReader::kMaxEventBytes)));
  EXPECT_TRUE(reader.Feed("\n\ndata: b\n\n").ok());  // Nothing is kept of it.
  EXPECT_EQ(reader.Next(), "b");
}

}  // namespace
}  // namespace kvern::server
