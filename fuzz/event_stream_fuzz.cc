// Any bytes as a stream of server-sent events: the events are the same however the bytes are cut.
#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "server/event_stream.h"

namespace {

std::vector<std::string> Events(std::string_view text, size_t piece_bytes) {
  kvern::server::EventStreamReader reader;
  std::vector<std::string> events;
  while (!text.empty()) {
    if (!reader.Feed(text.substr(0, piece_bytes)).ok()) __builtin_trap();  // Inputs are below its limit.
    text.remove_prefix(std::min(piece_bytes, text.size()));
    while (const auto event = reader.Next()) events.push_back(*event);
  }
  return events;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  if (Events(text, 1 + data[0]) != Events(text, std::max<size_t>(text.size(), 1))) __builtin_trap();
  return 0;
}
