// The target neon: its table, and its kernels but the products.
#if defined(__aarch64__)

#include "kernels/targets/neon_begin.inl.h"

#define KVERN_TARGET_NAME "neon"
#include "kernels/inl/table.inl.h"

#include "kernels/inl/elementwise.inl.h"

#include "kernels/inl/attention.inl.h"

#include "kernels/targets/region_end.inl.h"

#endif
