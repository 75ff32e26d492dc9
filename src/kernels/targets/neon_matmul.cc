// The target neon: its products.
#if defined(__aarch64__)

#include "kernels/targets/neon_begin.inl.h"

#include "kernels/inl/kernel_functions.inl.h"

#include "kernels/inl/matmul.inl.h"

#include "kernels/targets/region_end.inl.h"

#endif
