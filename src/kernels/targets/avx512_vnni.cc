// The target avx512-vnni: its table, and its kernels but the products.
#if defined(__x86_64__)

#include "kernels/targets/avx512_vnni_begin.inl.h"

#define KVERN_TARGET_NAME "avx512-vnni"
#include "kernels/inl/table.inl.h"

#include "kernels/inl/elementwise.inl.h"

#include "kernels/inl/attention.inl.h"

#include "kernels/targets/region_end.inl.h"

#endif
