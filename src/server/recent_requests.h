// RecentRequests: the last requests that generated, and what the cache did for each of them. Takes its own lock.
#pragma once

#include <cstddef>
#include <deque>
#include <mutex>

#include "server/json.h"
#include "server/openai/answer_format.h"
#include "server/request_record.h"
#include "server/tenants.h"

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

  // The latest first: of `tenant`, or where it is an admin of all, those of others without their texts.
  Json List(const Tenant& tenant) const {
    Json list = Json::array();
    const std::lock_guard lock(mutex_);
    for (const Json& entry : entries_) {
      const bool is_own = entry.at("tenant") == tenant.name;
      if (!is_own && !tenant.is_admin) continue;
      list.push_back(entry);
      Json& divergence = list.back()["divergence"];
      if (!is_own && !divergence.is_null()) divergence["cached"] = divergence["prompt"] = nullptr;
    }
    return list;
  }

 private:
  static constexpr size_t kMost = 100;
  mutable std::mutex mutex_;
  std::deque<Json> entries_;
};

}  // namespace kvern::server
