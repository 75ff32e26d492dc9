// Metrics: counts and times of all requests, in the text format of Prometheus. Any thread.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <utility>

#include "kvern/stats.h"
#include "server/http_server.h"
#include "server/request_record.h"

namespace kvern::server {

// A histogram of seconds with fixed bounds.
class SecondsHistogram {
 public:
  static constexpr std::array kBounds = {0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1,   0.25, 0.5,
                                         1.0,   2.5,    5.0,   10.0, 25.0,  50.0, 100.0, 250.0};
  void Add(double seconds);
  void AppendTo(std::string& text, const std::string& name, const std::string& help) const;

 private:
  std::array<uint64_t, kBounds.size() + 1> counts_ = {};  // The last one: beyond all bounds.
  double sum_ = 0;
};

class Metrics {
 public:
  // A request whose reply has ended.
  void Add(const RequestRecord& record, const HttpOutcome& outcome);
  // `engine`: null while the model loads.
  std::string Text(const EngineStats* engine, const HttpServerStats& server) const;

 private:
  mutable std::mutex mutex_;
  // All guarded by mutex_.
  std::map<std::pair<std::string, unsigned>, uint64_t> requests_;  // By route and status.
  uint64_t cancelled_requests_ = 0;
  uint64_t prompt_tokens_ = 0;
  uint64_t cached_tokens_ = 0;
  uint64_t generated_tokens_ = 0;
  SecondsHistogram queue_;
  SecondsHistogram first_token_;
  SecondsHistogram between_tokens_;
  SecondsHistogram duration_;
};

}  // namespace kvern::server
