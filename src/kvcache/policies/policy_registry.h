// Every eviction policy, by name.
#pragma once

#include <memory>
#include <span>
#include <string_view>

#include "kvern/eviction_policy.h"
#include "kvern/status.h"

namespace kvern {

struct PolicyEntry {
  std::string_view name;
  std::unique_ptr<EvictionPolicy> (*make)(uint32_t num_blocks);
};

// The first one is the default.
std::span<const PolicyEntry> AllPolicies();
// kInvalidArgument for an unknown name; the message lists the known ones.
Result<const PolicyEntry*> FindPolicy(std::string_view name);

}  // namespace kvern
