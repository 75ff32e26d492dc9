// avx2: two ymm registers, int8 dot products by vpmaddubsw.
// Opens the region and the namespace of this target; region_end.inl.h closes both.
#include "kernels/targets/prelude.h"

#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2,fma,f16c"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx2,fma,f16c")
// g++ 12 warns about its own avx512fintrin.h, wherever an intrinsic starts from an undefined register.
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif

namespace kvern::avx2 {

#include "kernels/simd/avx2.h"

#include "kernels/simd/dot_avx2.h"

#include "kernels/simd/kv_dot_avx2.h"
