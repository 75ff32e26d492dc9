// The target generic: its table, and its kernels but the products.
#include "kernels/targets/generic_begin.inl.h"

#define KVERN_TARGET_NAME "generic"
#include "kernels/inl/table.inl.h"

#include "kernels/inl/elementwise.inl.h"

#include "kernels/inl/attention.inl.h"

#include "kernels/targets/generic_end.inl.h"
