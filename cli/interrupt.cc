#include "cli/interrupt.h"

#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <mutex>
#include <thread>
#include <utility>

#include "cli/exit_code.h"

namespace kvern::cli {
namespace {

struct InterruptState {
  std::atomic<bool> was_interrupted{false};
  std::atomic<bool> handles_termination{false};
  std::mutex mutex;
  std::function<void()> action;  // GUARDED_BY(mutex)
};

// Never destroyed: the waiting thread lives until the process ends.
InterruptState& State() {
  static auto* const state = new InterruptState;
  return *state;
}

sigset_t InterruptSet() {
  sigset_t set;
  sigemptyset(&set);
  struct sigaction current = {};
  if (sigaction(SIGINT, nullptr, &current) != 0 || current.sa_handler != SIG_IGN) sigaddset(&set, SIGINT);
  sigaddset(&set, SIGTERM);
  return set;
}

// The signals are blocked in every thread, so they arrive here as values and the action may take locks. Afterwards this
// thread unblocks them, and the default action of the next one ends the process.
void WaitForInterrupt() {
  const sigset_t set = InterruptSet();
  int signal_number = 0;
  if (sigwait(&set, &signal_number) != 0) return;
  InterruptState& state = State();
  if (signal_number == SIGTERM && !state.handles_termination.load()) {
    pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
    raise(SIGTERM);
  }
  state.was_interrupted.store(true);
  pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
  {
    const std::lock_guard<std::mutex> lock(state.mutex);
    if (!state.action) std::_Exit(kExitInterrupted);
    state.action();
  }
  while (true) pause();  // The only thread that the next signal can be delivered to.
}

}  // namespace

void InstallInterruptHandler() {
  State();
  const sigset_t set = InterruptSet();
  if (pthread_sigmask(SIG_BLOCK, &set, nullptr) != 0) return;
  std::thread(WaitForInterrupt).detach();
}

void HandleTermination() { State().handles_termination.store(true); }

bool WasInterrupted() { return State().was_interrupted.load(); }

OnInterrupt::OnInterrupt(std::function<void()> action) {
  InterruptState& state = State();
  const std::lock_guard<std::mutex> lock(state.mutex);
  if (state.was_interrupted.load()) action();
  outer_action_ = std::exchange(state.action, std::move(action));
}

OnInterrupt::~OnInterrupt() {
  InterruptState& state = State();
  const std::lock_guard<std::mutex> lock(state.mutex);
  state.action = std::move(outer_action_);
}

}  // namespace kvern::cli
