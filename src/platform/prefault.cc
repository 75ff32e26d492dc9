#include "platform/prefault.h"

#include <sched.h>
#include <sys/mman.h>

#include <algorithm>
#include <system_error>
#include <utility>

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23  // Since Linux 5.14; older headers lack the name.
#endif

namespace kvern {
namespace {

constexpr size_t kPiece = size_t{2} << 20;  // A huge page: the end of the object waits for one at most.

void RunOnlyWhereIdle() {
  const sched_param no_priority = {};
  ::sched_setscheduler(0, SCHED_IDLE, &no_priority);  // 0: this thread. A wish: at worst it competes for a while.
}

}  // namespace

Prefault::Prefault(std::vector<std::span<uint8_t>> memory) {
  try {
    thread_ = std::thread([this, memory = std::move(memory)] { Run(memory); });
  } catch (const std::system_error&) {
    is_done_ = true;  // No thread: the pages come when they are needed.
  }
}

Prefault::~Prefault() {
  is_stopped_ = true;
  if (thread_.joinable()) thread_.join();
}

void Prefault::Run(const std::vector<std::span<uint8_t>>& memory) {
  RunOnlyWhereIdle();
  for (const std::span<uint8_t> part : memory) {
    for (size_t begin = 0; begin < part.size() && !is_stopped_; begin += kPiece) {
      if (::madvise(part.data() + begin, std::min(kPiece, part.size() - begin), MADV_POPULATE_WRITE) != 0) {
        is_stopped_ = true;
      }
    }
  }
  is_done_ = true;
}

}  // namespace kvern
