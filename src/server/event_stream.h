// Server-sent events as a client reads them.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "kvern/status.h"

namespace kvern::server {

// Puts events together from bytes that come in pieces of any size. One thread at a time.
class EventStreamReader {
 public:
  // What a server may send before the end of an event; more is an error, so a hostile one cannot fill the memory.
  static constexpr size_t kMaxEventBytes = 16u << 20;

  // kResourceExhausted where an event has no end; what has come of it is dropped.
  Status Feed(std::string_view bytes);
  // The data of the next event that is whole: its data lines, joined by '\n'. Comments and events without data are
  // passed over.
  std::optional<std::string> Next();

 private:
  // The next whole line without its end; "\n", "\r\n" and "\r" end lines.
  std::optional<std::string_view> NextLine();

  std::string buffer_;
  size_t read_ = 0;  // Bytes of buffer_ that were taken as lines.
  std::string data_;
  bool has_data_ = false;
};

}  // namespace kvern::server
