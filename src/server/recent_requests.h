// RecentRequests: the last requests that generated, and what the cache did for each of them. Takes its own lock.
#pragma once

#include <cstddef>
#include <deque>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "server/json.h"
#include "server/openai/answer_format.h"
#include "server/request_record.h"

namespace kvern::server {

class RecentRequests {
 public:
  void Add(const RequestRecord& record) {
    if (!record.generates) return;
    Json entry = {{"request_id", record.id},
                  {"tenant", record.tenant},
                  {"path", record.path},
                  {"prompt_tokens", record.prompt_tokens},
                  {"cached_tokens", record.cached_tokens},
                  {"prompt_causes", ToJson(record.causes)},
                  {"divergence", record.divergence}};
    const std::lock_guard lock(mutex_);
    entries_.push_front(std::move(entry));
    if (entries_.size() > kMost) entries_.pop_back();
  }

  // The latest first; of one tenant, or of all.
  Json List(std::optional<std::string_view> tenant) const {
    Json list = Json::array();
    const std::lock_guard lock(mutex_);
    for (const Json& entry : entries_) {
      if (!tenant.has_value() || entry.at("tenant") == *tenant) list.push_back(entry);
    }
    return list;
  }

 private:
  static constexpr size_t kMost = 100;
  mutable std::mutex mutex_;
  std::deque<Json> entries_;
};

}  // namespace kvern::server
