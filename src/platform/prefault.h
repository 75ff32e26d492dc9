// Memory that the system has cleared before anybody needs it.
#pragma once

#include <atomic>
#include <cstdint>
#include <span>
#include <thread>
#include <vector>

namespace kvern {

// Makes the pages of `memory` present, front to back, on a thread of its own. What the memory holds stays, so others
// may use it meanwhile. Whoever comes first to a page makes it present, as ever; where the system cannot do it ahead,
// all pages wait for that.
//
// The thread has no low priority: while it clears a piece the system keeps the lock of the address space for it, and
// who maps or unmaps memory then waits for as long as the thread is kept from a CPU. Whoever needs the CPUs pauses it.
class Prefault {
 public:
  // `memory` outlives the object. Ends early when the object does, or at memory that begins within a page.
  explicit Prefault(std::vector<std::span<uint8_t>> memory);
  ~Prefault();
  Prefault(const Prefault&) = delete;
  Prefault& operator=(const Prefault&) = delete;

  // After Pause() at most the piece under way, of 2 MiB, is still done, until Resume().
  void Pause();
  void Resume();

  bool is_done() const { return is_done_; }

 private:
  enum class State : int { kRuns, kPaused, kStopped };

  void Run(const std::vector<std::span<uint8_t>>& memory);
  // False at the end of the object.
  bool MayGoOn();

  std::atomic<State> state_ = State::kRuns;
  std::atomic<bool> is_done_ = false;
  std::thread thread_;
};

}  // namespace kvern
