// The target avx2: its table, and its kernels but the products.
#if defined(__x86_64__)

#include "kernels/targets/avx2_begin.inl.h"

#define KVERN_TARGET_NAME "avx2"
#include "kernels/inl/table.inl.h"

#include "kernels/inl/elementwise.inl.h"

#include "kernels/inl/attention.inl.h"

#include "kernels/targets/region_end.inl.h"

#endif
