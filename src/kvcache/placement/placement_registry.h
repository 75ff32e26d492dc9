// Every placement, by name.
#pragma once

#include <span>
#include <string_view>

#include "kvcache/placement/placement.h"

namespace kvern {

std::span<const Placement* const> AllPlacements();
// kInvalidArgument for an unknown name; the message lists the known ones.
Result<const Placement*> FindPlacement(std::string_view name);

}  // namespace kvern
