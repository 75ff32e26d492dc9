// The target avx512: its products.
#if defined(__x86_64__)

#include "kernels/targets/avx512_begin.inl.h"

#include "kernels/inl/kernel_functions.inl.h"

#include "kernels/inl/matmul.inl.h"

#include "kernels/targets/region_end.inl.h"

#endif
