#include "platform/prefault.h"

#include <sys/mman.h>

#include <algorithm>
#include <system_error>
#include <utility>

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23  // Since Linux 5.14; older headers lack the name.
#endif

namespace kvern {
namespace {

constexpr size_t kPiece = size_t{2} << 20;  // A huge page.

}  // namespace

Prefault::Prefault(std::vector<std::span<uint8_t>> memory) {
  try {
    thread_ = std::thread([this, memory = std::move(memory)] { Run(memory); });
  } catch (const std::system_error&) {
    is_done_ = true;  // No thread: the pages come when they are needed.
  }
}

Prefault::~Prefault() {
  state_ = State::kStopped;
  state_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void Prefault::Pause() { state_ = State::kPaused; }

void Prefault::Resume() {
  state_ = State::kRuns;
  state_.notify_all();
}

bool Prefault::MayGoOn() {
  state_.wait(State::kPaused);
  return state_ != State::kStopped;
}

void Prefault::Run(const std::vector<std::span<uint8_t>>& memory) {
  bool is_possible = true;
  for (const std::span<uint8_t> part : memory) {
    for (size_t begin = 0; begin < part.size() && is_possible && MayGoOn(); begin += kPiece) {
      const size_t size = std::min(kPiece, part.size() - begin);
      is_possible = ::madvise(part.data() + begin, size, MADV_POPULATE_WRITE) == 0;
    }
  }
  is_done_ = true;
}

}  // namespace kvern
