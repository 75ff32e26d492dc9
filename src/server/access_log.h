// AccessLog: one line of JSON per request. Prompts and answers are not in it, unless the operator asks for prompts.
#pragma once

#include <cstdio>
#include <memory>
#include <mutex>
#include <string>

#include "kvern/status.h"
#include "server/request_record.h"

namespace kvern::server {

struct HttpOutcome;

class AccessLog {
 public:
  // Appends to the file at `path`; "" or "-" is stderr. kIoError where it cannot be written.
  static Result<std::unique_ptr<AccessLog>> Open(const std::string& path);
  ~AccessLog();

  // Any thread. A line that cannot be written is lost; the server goes on.
  void Write(const RequestRecord& record, const HttpOutcome& outcome);

 private:
  explicit AccessLog(std::FILE* file) : file_(file) {}

  std::mutex mutex_;
  std::FILE* file_;  // Guarded by mutex_. stderr, or owned.
};

// The line without its end.
std::string AccessLogLine(const RequestRecord& record, const HttpOutcome& outcome, int64_t unix_ms);

}  // namespace kvern::server
