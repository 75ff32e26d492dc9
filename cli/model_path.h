// Which model file a command works on when the user does not say.
#pragma once

#include <string>

#include "kvern/status.h"

namespace kvern::cli {

// `given` if not empty, else `from_environment` if not empty (the value of KVERN_MODEL), else the only *.gguf file in
// `directory`. kInvalidArgument lists what was found there and says how to choose. The file itself is not looked at.
Result<std::string> ChooseModel(const std::string& given, const std::string& from_environment,
                                const std::string& directory);

// The same with the process's environment and models/ in the working directory.
Result<std::string> ChooseModel(const std::string& given);

}  // namespace kvern::cli
