#include "engine/stop_checker.h"

#include <algorithm>
#include <utility>

namespace kvern {

StopChecker::StopChecker(std::vector<std::string> stops) : stops_(std::move(stops)) {
  for (const std::string& stop : stops_) longest_ = std::max(longest_, stop.size());
}

std::string StopChecker::Push(std::string_view text) {
  if (is_stopped_) return "";
  if (stops_.empty()) return std::string(text);
  const size_t num_old_bytes = held_.size();
  held_ += text;
  size_t num_certain;
  if (const std::optional<size_t> stop = FindStop(num_old_bytes)) {
    is_stopped_ = true;
    num_certain = *stop;
  } else {
    num_certain = held_.size() - BytesToHold();
  }
  std::string certain = held_.substr(0, num_certain);
  held_.erase(0, is_stopped_ ? held_.size() : num_certain);
  return certain;
}

std::string StopChecker::Finish() { return std::exchange(held_, {}); }

std::optional<size_t> StopChecker::FindStop(size_t num_old_bytes) const {
  size_t best_end = std::string::npos;
  size_t best_begin = 0;
  for (const std::string& stop : stops_) {
    // A match ends in the new bytes: the old ones were searched before.
    const size_t from = num_old_bytes < stop.size() ? 0 : num_old_bytes - stop.size() + 1;
    const size_t begin = held_.find(stop, from);
    if (begin == std::string::npos) continue;
    const size_t end = begin + stop.size();
    if (end < best_end || (end == best_end && begin < best_begin)) {
      best_end = end;
      best_begin = begin;
    }
  }
  if (best_end == std::string::npos) return std::nullopt;
  return best_begin;
}

size_t StopChecker::BytesToHold() const {
  for (size_t n = std::min(held_.size(), longest_ - 1); n > 0; --n) {
    const std::string_view tail = std::string_view(held_).substr(held_.size() - n);
    for (const std::string& stop : stops_) {
      if (stop.size() > n && std::string_view(stop).substr(0, n) == tail) return n;
    }
  }
  return 0;
}

}  // namespace kvern
