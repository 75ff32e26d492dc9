// AccessLog: one line of JSON per request. Prompts and answers are not in it, unless the operator asks for prompts.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "kvern/status.h"
#include "server/request_record.h"

namespace kvern::server {

struct HttpOutcome;

class AccessLog {
 public:
  // Appends to the file at `path`; "" or "-" is stderr. kIoError where it cannot be written.
  static Result<std::unique_ptr<AccessLog>> Open(const std::string& path);
  ~AccessLog();

  // Any thread. A line that cannot be written is lost, which is said once on stderr; the server goes on.
  void Write(const RequestRecord& record, const HttpOutcome& outcome);

 private:
  AccessLog(int file, std::string path) : file_(file), path_(std::move(path)) {}

  const int file_;  // Of stderr, or owned.
  const std::string path_;
  std::mutex mutex_;
  // Guarded by mutex_.
  bool is_failing_ = false;  // The last line could not be written.
  bool is_torn_ = false;     // The file ends within a line.
};

// The line without its end.
std::string AccessLogLine(const RequestRecord& record, const HttpOutcome& outcome, int64_t unix_ms);

}  // namespace kvern::server
