#include "cli/output.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

#include "cli/exit_code.h"

namespace kvern::cli {
namespace {

constexpr int kBarWidth = 30;

// errno of the first write to stdout that failed. Only the main thread writes results.
int stdout_errno = 0;

bool Remember(bool is_ok) {
  if (!is_ok && stdout_errno == 0) stdout_errno = errno != 0 ? errno : EIO;
  return stdout_errno == 0;
}

// "1:05".
std::string MinutesText(double seconds) {
  const auto whole = static_cast<long>(seconds);
  char text[32];
  std::snprintf(text, sizeof(text), "%ld:%02ld", whole / 60, whole % 60);
  return text;
}

}  // namespace

bool WriteOut(std::string_view text) {
  if (stdout_errno != 0) return false;
  errno = 0;
  return Remember(std::fwrite(text.data(), 1, text.size(), stdout) == text.size());
}

bool FlushOut() {
  if (stdout_errno != 0) return false;
  errno = 0;
  return Remember(std::fflush(stdout) == 0);
}

Status WriteFile(const std::string& path, std::string_view text) {
  std::FILE* const file = std::fopen(path.c_str(), "wb");
  const bool is_written = file != nullptr && std::fwrite(text.data(), 1, text.size(), file) == text.size();
  const int error = errno;
  if (file != nullptr && std::fclose(file) == 0 && is_written) return Status::Ok();
  return Status::IoError(path + " cannot be written: " + std::strerror(is_written ? errno : error));
}

int FinishOut(int exit_code) {
  if (FlushOut()) return exit_code;
  if (stdout_errno == EPIPE) {
    std::fprintf(stderr, "kvern: stopped: the reader of standard output has closed it\n");
  } else {
    std::fprintf(stderr, "kvern: cannot write to standard output: %s\n", std::strerror(stdout_errno));
  }
  return exit_code == kExitDone ? kExitFailed : exit_code;
}

ProgressBar::ProgressBar(std::string label, uint64_t total, bool shows_time_left)
    : label_(std::move(label)),
      total_(total),
      shows_time_left_(shows_time_left),
      start_(std::chrono::steady_clock::now()),
      is_terminal_(isatty(STDERR_FILENO) == 1) {}

ProgressBar::~ProgressBar() { Erase(); }

void ProgressBar::Update(uint64_t done) {
  if (!is_terminal_ || total_ == 0) return;
  const int percent =
      static_cast<int>(100.0 * static_cast<double>(std::min(done, total_)) / static_cast<double>(total_));
  if (percent == shown_percent_) return;
  shown_percent_ = percent;
  const int filled = percent * kBarWidth / 100;
  const std::string bar(static_cast<size_t>(filled), '#');
  std::string tail;
  if (shows_time_left_ && percent > 0) {
    const double elapsed = std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
    tail = ", " + MinutesText(elapsed * (100 - percent) / percent) + " left";
  }
  const int width =
      std::fprintf(stderr, "\r%s [%-*s] %3d %%%-14s", label_.c_str(), kBarWidth, bar.c_str(), percent, tail.c_str());
  shown_width_ = static_cast<size_t>(std::max(width - 1, 0));
  std::fflush(stderr);
}

void ProgressBar::Erase() {
  if (shown_percent_ < 0) return;
  shown_percent_ = -1;
  std::fprintf(stderr, "\r%*s\r", static_cast<int>(shown_width_), "");
  std::fflush(stderr);
}

}  // namespace kvern::cli
