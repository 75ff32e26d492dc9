// Exit codes of kvern, and the one way to end a command with an error.
#pragma once

#include "kvern/status.h"

namespace kvern::cli {

inline constexpr int kExitDone = 0;
inline constexpr int kExitFailed = 1;
inline constexpr int kExitUsage = 2;
inline constexpr int kExitInterrupted = 130;  // 128 + SIGINT, as shells count.

// Prints one line about `status` to stderr. kExitInterrupted after a Ctrl-C, else kExitFailed.
int Fail(const Status& status);

// The same for options and arguments that make no sense: kExitUsage.
int FailUsage(const Status& status);

}  // namespace kvern::cli
