#include "kernels/dispatch.h"

#include "kernels/targets/target_tables.h"
#include "platform/cpu_features.h"

namespace kvern {
namespace {

std::vector<const KernelTable*> FindRunnableTargets() {
  std::vector<const KernelTable*> targets = {&generic::kKernelTable};
#if defined(__x86_64__)
  const CpuFeatures& cpu = GetCpuFeatures();
  if (cpu.has_avx2) targets.push_back(&avx2::kKernelTable);
  if (cpu.has_avx2 && cpu.has_avx_vnni) targets.push_back(&avx2_vnni::kKernelTable);
  if (cpu.has_avx512) targets.push_back(&avx512::kKernelTable);
  if (cpu.has_avx512 && cpu.has_avx512_vnni) targets.push_back(&avx512_vnni::kKernelTable);
#elif defined(__aarch64__)
  if (GetCpuFeatures().has_neon_dotprod) targets.push_back(&neon::kKernelTable);
#endif
  return targets;
}

}  // namespace

std::span<const KernelTable* const> RunnableTargets() {
  static const std::vector<const KernelTable*> targets = FindRunnableTargets();
  return targets;
}

Result<const KernelTable*> ChooseTarget(std::string_view name) {
  const auto targets = RunnableTargets();
  if (name.empty() || name == "auto") return targets.back();
  std::string names;
  for (const KernelTable* target : targets) {
    if (name == target->name) return target;
    names += std::string(names.empty() ? "" : ", ") + target->name;
  }
  return Status::InvalidArgument("instruction set \"" + std::string(name) +
                                 "\": unknown, or not offered by this CPU; expected auto or one of " + names);
}

}  // namespace kvern
