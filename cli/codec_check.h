// Whether a command may run with lossy keys and values on this model.
#pragma once

#include <string>

#include "kvern/options.h"

namespace kvern::cli {

struct LossyFlags {
  bool is_allowed = false;    // --allow-lossy
  std::string verdicts_path;  // --verdicts; "": VerdictStore::DefaultPath().
};

// Ok for f32 and 16-bit codecs at once. A codec of 8 bits or fewer without a verdict on this model is warned about on
// stderr and runs; one whose gate has failed is kUnsupported with what was measured, unless it is allowed.
Status CheckCodecs(const EngineOptions& options, const LossyFlags& flags);

// The path that the flags come to.
std::string VerdictsPath(const LossyFlags& flags);

}  // namespace kvern::cli
