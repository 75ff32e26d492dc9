// The targets of this build, and which of them this CPU can run.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/kernel_table.h"
#include "kvern/status.h"

namespace kvern {

// The kernels of every target that this CPU can run, slowest ("generic") first, best last. Never empty.
std::span<const KernelTable* const> RunnableTargets();

// "auto" or "" gives the best one. An unknown name or one that this CPU lacks is kInvalidArgument; the message lists
// what there is.
Result<const KernelTable*> ChooseTarget(std::string_view name);

}  // namespace kvern
