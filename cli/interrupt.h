// Ctrl-C: the first one asks the running work to end and keep what it has, the second one kills the process at once.
// Where no work that can be asked is running, the first one ends the process with kExitInterrupted.
#pragma once

#include <functional>

namespace kvern::cli {

// Once, in main, before any other thread starts. A process that was started with SIGINT ignored keeps ignoring it.
// SIGTERM ends the process, as ever, until HandleTermination says otherwise.
void InstallInterruptHandler();

// From now on SIGTERM is a Ctrl-C: for commands that run until they are told to end.
void HandleTermination();

// Whether the first Ctrl-C has come. Any thread.
bool WasInterrupted();

// What the Ctrl-C asked for is done and the program goes on: the next one is a first one again. Nothing where none
// came.
void ForgetInterrupt();

// While it lives, the first Ctrl-C runs `action` on a thread of its own (at once where it has come already) and leaves
// the rest to the work that made it. Nests: the innermost runs. The destructor waits for an action that runs.
class OnInterrupt {
 public:
  explicit OnInterrupt(std::function<void()> action = [] {});
  ~OnInterrupt();
  OnInterrupt(const OnInterrupt&) = delete;
  OnInterrupt& operator=(const OnInterrupt&) = delete;

 private:
  std::function<void()> outer_action_;
};

}  // namespace kvern::cli
