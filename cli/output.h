// Standard output that notices when nobody reads it any more, and progress bars for people who watch a terminal.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace kvern::cli {

// Writes to stdout, buffered. False once stdout has failed: a closed pipe, a full disk.
bool WriteOut(std::string_view text);
// Pushes out what is buffered, so that a reader sees it now.
bool FlushOut();
// Flushes; says on stderr why stdout failed, if it did, and turns `exit_code` 0 into kExitFailed. Last call of main.
int FinishOut(int exit_code);

// A bar on stderr that is redrawn in place; silent where stderr is no terminal. Erased by the destructor.
class ProgressBar {
 public:
  ProgressBar(std::string label, uint64_t total);
  ~ProgressBar();
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;
  void Update(uint64_t done);
  void SetTotal(uint64_t total) { total_ = total; }
  void Erase();

 private:
  std::string label_;
  uint64_t total_;
  int shown_percent_ = -1;
  bool is_terminal_;
};

}  // namespace kvern::cli
