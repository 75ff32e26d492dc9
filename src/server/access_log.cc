#include "server/access_log.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <ctime>

#include "server/http_message.h"
#include "server/json.h"

namespace kvern::server {
namespace {

// "2026-08-01T12:00:00.123Z"
std::string TimeText(int64_t unix_ms) {
  const std::time_t seconds = unix_ms / 1000;
  std::tm utc = {};
  gmtime_r(&seconds, &utc);
  char date[32], text[48];
  std::strftime(date, sizeof(date), "%Y-%m-%dT%H:%M:%S", &utc);
  std::snprintf(text, sizeof(text), "%s.%03dZ", date, static_cast<int>(unix_ms % 1000));
  return text;
}

constexpr size_t kMaxErrorBytes = 1000;  // Whatever clients may have put into it.

double Millis(uint64_t us) { return static_cast<double>(us) / 1000; }

}  // namespace

Result<std::unique_ptr<AccessLog>> AccessLog::Open(const std::string& path) {
  if (path.empty() || path == "-") return std::unique_ptr<AccessLog>(new AccessLog(STDERR_FILENO, "stderr"));
  // Who calls, and with --log-prompts what for, is not for everybody.
  const int file = open(path.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0640);
  if (file < 0) return Status::IoError("the access log " + path + " cannot be written: " + std::strerror(errno));
  return std::unique_ptr<AccessLog>(new AccessLog(file, path));
}

AccessLog::~AccessLog() {
  if (file_ != STDERR_FILENO) close(file_);
}

void AccessLog::Write(const RequestRecord& record, const HttpOutcome& outcome) {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  std::string line =
      AccessLogLine(record, outcome, std::chrono::duration_cast<std::chrono::milliseconds>(now).count()) + "\n";
  const std::lock_guard lock(mutex_);
  if (is_torn_) line.insert(line.begin(), '\n');
  size_t num_written = 0;
  while (num_written < line.size()) {  // One call, as a rule, so that lines of several writers do not mix.
    const ssize_t n = write(file_, line.data() + num_written, line.size() - num_written);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) break;
    num_written += static_cast<size_t>(n);
  }
  const bool is_lost = num_written < line.size();
  is_torn_ = is_lost && (is_torn_ || num_written > 0);
  if (std::exchange(is_failing_, is_lost) || !is_lost || file_ == STDERR_FILENO) return;
  std::fprintf(stderr, "kvern: warning: the access log %s cannot be written, lines are lost: %s\n", path_.c_str(),
               std::strerror(errno));
}

std::string AccessLogLine(const RequestRecord& record, const HttpOutcome& outcome, int64_t unix_ms) {
  Json line = {{"time", TimeText(unix_ms)},
               {"request_id", record.id},
               {"remote", record.remote},
               {"tenant", record.tenant},
               {"method", record.method},
               {"path", record.path},
               {"status", outcome.status},
               {"bytes", outcome.num_bytes},
               {"duration_ms", Millis(static_cast<uint64_t>(outcome.duration.count()))},
               {"complete", outcome.is_complete}};
  if (!record.error.empty()) line["error"] = ShortText(record.error, kMaxErrorBytes);
  if (record.generates) {
    line["stream"] = record.is_streamed;
    line["prompt_tokens"] = record.prompt_tokens;
    line["cached_tokens"] = record.cached_tokens;
    line["completion_tokens"] = record.generated_tokens;
    line["queue_ms"] = Millis(record.queue_us);
    line["prefill_ms"] = Millis(record.prefill_us);
    line["decode_ms"] = Millis(record.decode_us);
    if (record.first_token_us.has_value()) line["first_token_ms"] = Millis(*record.first_token_us);
    line["finish_reason"] = record.finish_reason;
    if (!record.prompt.empty()) line["prompt"] = record.prompt;
  }
  return DumpJson(line);
}

}  // namespace kvern::server
