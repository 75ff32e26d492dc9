// Products of packed weights with packed activations: everything of one target. Included inside its namespace.
// docs/numerics.md fixes the order of additions of every output; these files choose only which outputs stand in
// registers together and what is read when.
#pragma once

#include "kernels/inl/matmul_activations.inl.h"

#include "kernels/inl/matmul_sources.inl.h"

#include "kernels/inl/matmul_int8.inl.h"

#include "kernels/inl/matmul_f32.inl.h"

void Matmul(const MatmulArgs& args) {
  KVERN_DCHECK(args.panel_end <= args.weights.num_panels() && args.weights.num_inputs <= kMaxPackedInputs);
  if (args.panel_begin >= args.panel_end || args.num_rows == 0) return;
  if (args.form == ActivationForm::kF32) {
    MatmulF32(args);
  } else {
    MatmulInt8(args);
  }
}
