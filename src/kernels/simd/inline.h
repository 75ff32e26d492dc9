// Compiler marks that the code of every target uses. Included before a target's region begins.
#pragma once

// A vector function that is not inlined passes its vectors through memory, and on another target's calling convention.
#define KVERN_INLINE inline __attribute__((always_inline))
#define KVERN_NOINLINE __attribute__((noinline))

// Put before a loop of a constant, small number of iterations whose arrays must end up in registers.
#if defined(__clang__)
#define KVERN_UNROLL _Pragma("clang loop unroll(full)")
#else
#define KVERN_UNROLL _Pragma("GCC unroll 32")
#endif
