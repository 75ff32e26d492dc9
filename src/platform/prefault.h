// Memory that the system has cleared before anybody needs it.
#pragma once

#include <atomic>
#include <cstdint>
#include <span>
#include <thread>
#include <vector>

namespace kvern {

// Makes the pages of `memory` present, front to back, on a thread of its own that runs only where a CPU has nothing
// else to do. What the memory holds stays, so others may use it meanwhile. Whoever comes first to a page makes it
// present, as ever; where the system cannot do it ahead, all pages wait for that.
class Prefault {
 public:
  // `memory` outlives the object. Ends early when the object does, or at memory that begins within a page.
  explicit Prefault(std::vector<std::span<uint8_t>> memory);
  ~Prefault();
  Prefault(const Prefault&) = delete;
  Prefault& operator=(const Prefault&) = delete;

  bool is_done() const { return is_done_; }

 private:
  void Run(const std::vector<std::span<uint8_t>>& memory);

  std::atomic<bool> is_stopped_ = false;
  std::atomic<bool> is_done_ = false;
  std::thread thread_;
};

}  // namespace kvern
