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

int FinishOut(int exit_code) {
  if (FlushOut()) return exit_code;
  if (stdout_errno == EPIPE) {
    std::fprintf(stderr, "kvern: stopped: the reader of standard output has closed it\n");
  } else {
    std::fprintf(stderr, "kvern: cannot write to standard output: %s\n", std::strerror(stdout_errno));
  }
  return exit_code == kExitDone ? kExitFailed : exit_code;
}

ProgressBar::ProgressBar(std::string label, uint64_t total)
    : label_(std::move(label)), total_(total), is_terminal_(isatty(STDERR_FILENO) == 1) {}

ProgressBar::~ProgressBar() { Erase(); }

void ProgressBar::Update(uint64_t done) {
  if (!is_terminal_ || total_ == 0) return;
  const int percent =
      static_cast<int>(100.0 * static_cast<double>(std::min(done, total_)) / static_cast<double>(total_));
  if (percent == shown_percent_) return;
  shown_percent_ = percent;
  const int filled = percent * kBarWidth / 100;
  const std::string bar(static_cast<size_t>(filled), '#');
  std::fprintf(stderr, "\r%s [%-*s] %3d %%", label_.c_str(), kBarWidth, bar.c_str(), percent);
  std::fflush(stderr);
}

void ProgressBar::Erase() {
  if (shown_percent_ < 0) return;
  shown_percent_ = -1;
  std::fprintf(stderr, "\r%*s\r", static_cast<int>(label_.size()) + kBarWidth + 9, "");
  std::fflush(stderr);
}

}  // namespace kvern::cli
