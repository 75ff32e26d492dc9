#include "cli/exit_code.h"

#include <cstdio>

#include "cli/interrupt.h"

namespace kvern::cli {

int Fail(const Status& status) {
  if (status.code() == StatusCode::kCancelled && WasInterrupted()) {
    std::fprintf(stderr, "kvern: interrupted\n");
    return kExitInterrupted;
  }
  std::fprintf(stderr, "kvern: %s\n", status.ToString().c_str());
  return kExitFailed;
}

int FailUsage(const Status& status) {
  std::fprintf(stderr, "kvern: %s\n", status.message().c_str());
  return kExitUsage;
}

}  // namespace kvern::cli
