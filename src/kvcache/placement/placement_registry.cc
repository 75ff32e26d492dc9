#include "kvcache/placement/placement_registry.h"

#include <string>

namespace kvern {

std::span<const Placement* const> AllPlacements() {
  static const Placement* const kPlacements[] = {&PagedPlacement(), &ContiguousPlacement(), &GrowingPlacement(),
                                                 &RingPlacement()};
  return kPlacements;
}

Result<const Placement*> FindPlacement(std::string_view name) {
  std::string known;
  for (const Placement* placement : AllPlacements()) {
    if (placement->Name() == name) return placement;
    known += (known.empty() ? "" : ", ") + std::string(placement->Name());
  }
  return Status::InvalidArgument("placement is '" + std::string(name) + "', expected one of " + known);
}

}  // namespace kvern
