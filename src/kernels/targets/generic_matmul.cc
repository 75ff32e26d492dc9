// The target generic: its products.
#include "kernels/targets/generic_begin.inl.h"

#include "kernels/inl/kernel_functions.inl.h"

#include "kernels/inl/matmul.inl.h"

#include "kernels/targets/generic_end.inl.h"
