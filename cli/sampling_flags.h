// The options of commands that draw tokens.
#pragma once

#include "kvern/request.h"

namespace CLI {
class App;
}

namespace kvern::cli {

// Adds them to `app`; `sampling` holds the defaults and must outlive it.
void AddSamplingTo(CLI::App& app, SamplingOptions& sampling);

}  // namespace kvern::cli
