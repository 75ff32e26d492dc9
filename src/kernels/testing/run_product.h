// One product from plain activations to plain results, as a model would ask for it; for tests and fuzzing.
#pragma once

#include <algorithm>
#include <vector>

#include "base/aligned_buffer.h"
#include "kernels/kernel_table.h"

namespace kvern {

// Borders at which the work is cut, as several workers would: packing by rows and columns, multiplying by panels.
struct ProductCuts {
  std::vector<uint32_t> rows, columns, panels;
};

// out[num_rows][num_outputs] = weights * x[num_rows][num_inputs]; `addend`, where not empty, is what `out` held before
// and the product is added to.
inline std::vector<float> RunProduct(const KernelTable& kernels, const PackedMatrixView& weights,
                                     const std::vector<float>& x, uint32_t num_rows, ActivationForm form,
                                     ProductCuts cuts = {}, const std::vector<float>& addend = {}) {
  const uint32_t num_inputs = weights.num_inputs;
  AlignedBuffer packed = HeapAllocator().Allocate(kernels.activation_bytes(form, num_rows, num_inputs)).value();
  AlignedBuffer scratch = HeapAllocator().Allocate(kernels.matmul_scratch_bytes()).value();
  cuts.rows.push_back(num_rows);
  cuts.columns.push_back(num_inputs);
  cuts.panels.push_back(weights.num_panels());

  uint32_t row_begin = 0;
  for (const uint32_t row_end : cuts.rows) {
    uint32_t col_begin = 0;
    for (const uint32_t col_end : cuts.columns) {
      kernels.pack_activations(
          {form, x.data(), num_inputs, num_rows, num_inputs, row_begin, row_end, col_begin, col_end, packed.data()});
      col_begin = col_end;
    }
    row_begin = row_end;
  }

  const size_t stride = static_cast<size_t>(weights.num_panels()) * kPanelOutputs;
  std::vector<float> padded(num_rows * stride, -1.0f);
  for (size_t i = 0; i < addend.size(); ++i) {
    padded[i / weights.num_outputs * stride + i % weights.num_outputs] = addend[i];
  }
  uint32_t panel_begin = 0;
  for (const uint32_t panel_end : cuts.panels) {
    kernels.matmul({weights, form, packed.data(), num_rows, padded.data(), stride, !addend.empty(), panel_begin,
                    panel_end, scratch.data()});
    panel_begin = panel_end;
  }
  std::vector<float> out(static_cast<size_t>(num_rows) * weights.num_outputs);
  for (uint32_t row = 0; row < num_rows; ++row) {
    std::copy_n(padded.begin() + static_cast<ptrdiff_t>(row * stride), weights.num_outputs,
                out.begin() + static_cast<ptrdiff_t>(static_cast<size_t>(row) * weights.num_outputs));
  }
  return out;
}

}  // namespace kvern
