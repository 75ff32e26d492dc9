// neon: four q registers (AArch64), int8 dot products by sdot (FEAT_DotProd).
// Opens the region and the namespace of this target; region_end.inl.h closes both.
#include "kernels/targets/prelude.h"

#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("dotprod"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("arch=armv8.2-a+dotprod")
// Scheduling before registers are given out, which g++ does on Arm only, moves the loads of a whole tile to its top and
// spills them: four times the moves between registers and memory.
#pragma GCC optimize("no-schedule-insns")
#endif

namespace kvern::neon {

#include "kernels/simd/neon.h"

#include "kernels/simd/dot_neon.h"

#include "kernels/simd/kv_dot_neon.h"
