// Everything that kernels include, read before a target's region begins: inside one, these headers would be compiled
// for that target too, and the linker might keep such a copy of an inline function for all.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>

#if defined(__x86_64__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

#include "base/check.h"
#include "kernels/attention_seen.h"
#include "kernels/attention_tile.h"
#include "kernels/kernel_table.h"
#include "kernels/kv_codec.h"
#include "kernels/kv_view.h"
#include "kernels/packed_layout.h"
#include "kernels/packed_matrix.h"
#include "kernels/simd/exact_fma.h"
#include "kernels/simd/inline.h"
#include "kernels/simd/kv_factors.h"
#include "tensor/dtype.h"
#include "tensor/half.h"
