// generic: plain C++, for every CPU. The oracle of the other targets; about 70 times slower.
// Opens the namespace of this target; generic_end.inl.h closes it.
#include "kernels/targets/prelude.h"

// Sixteen lanes of loops, all inlined and unrolled, would take minutes to compile and gain nothing.
#undef KVERN_INLINE
#define KVERN_INLINE inline
#undef KVERN_UNROLL
#define KVERN_UNROLL

namespace kvern::generic {

#include "kernels/simd/generic.h"

#include "kernels/simd/dot_generic.h"

#include "kernels/simd/kv_dot_generic.h"
