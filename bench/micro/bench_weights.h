// Weights for the benches of the products.
#pragma once

#include <cstdlib>
#include <cstring>

#include "kernels/packed_matrix.h"
#include "kernels/testing/random_weights.h"
#include "platform/huge_pages.h"

namespace kvern {

// Packed weights of random bytes with sane scales: packing a gigabyte would only cost time.
struct BenchWeights {
  AlignedBuffer buffer;
  PackedMatrixView view;
};

inline BenchWeights MakeBenchWeights(DType dtype, uint32_t num_outputs, uint32_t num_inputs) {
  const TestWeights few(dtype, kPanelOutputs, num_inputs, 1);
  PackedMatrix panel = PackedMatrix::Allocate(few.view, HeapAllocator()).value();
  if (!panel.PackPanels(few.view, 0, 1).ok()) std::abort();
  BenchWeights weights;
  weights.view = panel.view();
  weights.view.num_outputs = num_outputs;
  const size_t num_bytes = weights.view.num_panels() * weights.view.panel_bytes;
  weights.buffer = HugePageAllocator().Allocate(num_bytes).value();
  for (uint32_t p = 0; p < weights.view.num_panels(); ++p) {
    std::memcpy(weights.buffer.data() + p * weights.view.panel_bytes, panel.view().data, weights.view.panel_bytes);
  }
  weights.view.data = weights.buffer.data();
  return weights;
}

}  // namespace kvern
