#include "cli/interrupt.h"

#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <condition_variable>
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
  std::condition_variable changed;
  bool is_listening = true;      // GUARDED_BY(mutex): the next signal arrives as a value, see below.
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
// thread unblocks them, and the default action of the next one ends the process, until ForgetInterrupt.
void WaitForInterrupts() {
  const sigset_t set = InterruptSet();
  InterruptState& state = State();
  while (true) {
    int signal_number = 0;
    if (sigwait(&set, &signal_number) != 0) return;
    if (signal_number == SIGTERM && !state.handles_termination.load()) {
      pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
      raise(SIGTERM);
    }
    state.was_interrupted.store(true);
    pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
    std::unique_lock<std::mutex> lock(state.mutex);
    if (!state.action) std::_Exit(kExitInterrupted);
    state.action();
    state.is_listening = false;
    state.changed.notify_all();
    state.changed.wait(lock, [&state] { return !state.was_interrupted.load(); });
    pthread_sigmask(SIG_BLOCK, &set, nullptr);
    state.is_listening = true;
    state.changed.notify_all();
  }
}

}  // namespace

void InstallInterruptHandler() {
  State();
  const sigset_t set = InterruptSet();
  if (pthread_sigmask(SIG_BLOCK, &set, nullptr) != 0) return;
  std::thread(WaitForInterrupts).detach();
}

void HandleTermination() { State().handles_termination.store(true); }

bool WasInterrupted() { return State().was_interrupted.load(); }

void ForgetInterrupt() {
  InterruptState& state = State();
  if (!state.was_interrupted.load()) return;
  std::unique_lock<std::mutex> lock(state.mutex);
  // The flag may be set before the action has run: it runs first, so that it meets the work it was meant for.
  state.changed.wait(lock, [&state] { return !state.is_listening; });
  state.was_interrupted.store(false);
  state.changed.notify_all();
  state.changed.wait(lock, [&state] { return state.is_listening; });
}

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
