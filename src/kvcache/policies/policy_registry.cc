#include "kvcache/policies/policy_registry.h"

#include <string>
#include <vector>

namespace kvern {

std::span<const PolicyEntry> AllPolicies() {
  static constexpr PolicyEntry kPolicies[] = {{"slru", &MakeSlruPolicy}, {"lru", &MakeLruPolicy}};
  return kPolicies;
}

std::vector<std::string> EvictionPolicyNames() {
  std::vector<std::string> names;
  for (const PolicyEntry& policy : AllPolicies()) names.emplace_back(policy.name);
  return names;
}

Result<const PolicyEntry*> FindPolicy(std::string_view name) {
  std::string known;
  for (const PolicyEntry& policy : AllPolicies()) {
    if (policy.name == name) return &policy;
    known += (known.empty() ? "" : ", ") + std::string(policy.name);
  }
  return Status::InvalidArgument("eviction policy is '" + std::string(name) + "', expected one of " + known);
}

}  // namespace kvern
