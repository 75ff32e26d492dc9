// Standard output that notices when nobody reads it any more, and progress bars for people who watch a terminal.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

#include "kvern/status.h"

namespace kvern::cli {

// Writes to stdout, buffered. False once stdout has failed: a closed pipe, a full disk.
bool WriteOut(std::string_view text);
// Pushes out what is buffered, so that a reader sees it now.
bool FlushOut();
// Writes `text` to the file at `path`, in place of what it held. kIoError names the path.
Status WriteFile(const std::string& path, std::string_view text);
// Flushes; says on stderr why stdout failed, if it did, and turns `exit_code` 0 into kExitFailed. Last call of main.
int FinishOut(int exit_code);

// A bar on stderr that is redrawn in place; silent where stderr is no terminal. Erased by the destructor.
class ProgressBar {
 public:
  ProgressBar(std::string label, uint64_t total, bool shows_time_left = false);
  ~ProgressBar();
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;
  void Update(uint64_t done);
  void SetTotal(uint64_t total) { total_ = total; }
  void Erase();

 private:
  std::string label_;
  uint64_t total_;
  bool shows_time_left_;
  std::chrono::steady_clock::time_point start_;
  size_t shown_width_ = 0;
  int shown_percent_ = -1;
  bool is_terminal_;
};

}  // namespace kvern::cli
