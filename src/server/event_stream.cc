#include "server/event_stream.h"

#include <algorithm>
#include <utility>

namespace kvern::server {

Status EventStreamReader::Feed(std::string_view bytes) {
  buffer_.erase(0, std::exchange(read_, 0));
  if (buffer_.size() + data_.size() + bytes.size() <= kMaxEventBytes) {
    buffer_ += bytes;
    return Status::Ok();
  }
  *this = {};
  return Status::ResourceExhausted("an event of the stream is longer than " + std::to_string(kMaxEventBytes) +
                                   " bytes");
}

std::optional<std::string_view> EventStreamReader::NextLine() {
  const std::string_view rest = std::string_view(buffer_).substr(read_);
  const size_t end = rest.find_first_of("\r\n");
  if (end == std::string_view::npos) return std::nullopt;
  size_t next = end + 1;
  if (rest[end] == '\r') {
    if (next == rest.size()) return std::nullopt;  // The '\n' that belongs to it may still come.
    if (rest[next] == '\n') ++next;
  }
  read_ += next;
  return rest.substr(0, end);
}

std::optional<std::string> EventStreamReader::Next() {
  while (const std::optional<std::string_view> line = NextLine()) {
    if (line->empty()) {
      if (!std::exchange(has_data_, false)) continue;
      return std::exchange(data_, {});
    }
    if (!line->starts_with("data") || (line->size() > 4 && (*line)[4] != ':')) continue;
    std::string_view value = line->substr(std::min<size_t>(line->size(), 5));
    if (value.starts_with(' ')) value.remove_prefix(1);
    if (std::exchange(has_data_, true)) data_ += '\n';
    data_ += value;
  }
  return std::nullopt;
}

}  // namespace kvern::server
