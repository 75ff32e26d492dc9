// The escapes of Python's string literals.
#pragma once

#include <string>
#include <string_view>

#include "kvern/status.h"

namespace kvern::jinja {

// The text that `literal` (what stands between the quotes) means. Unknown escapes stay as they are. kCorruption,
// without a place, for an escape that is cut short or names no character.
Result<std::string> Unescaped(std::string_view literal);

}  // namespace kvern::jinja
