// The numerics version: docs/numerics.md says what it stands for and when it is raised.
#pragma once

#include <cstdint>

namespace kvern {

inline constexpr uint32_t kNumericsVersion = 3;

}  // namespace kvern
