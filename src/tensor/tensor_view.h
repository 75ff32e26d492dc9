// A borrowed, typed, shaped range of bytes: a tensor inside a mapped model file.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>

#include "tensor/dtype.h"

namespace kvern {

// dims[0] is the fastest (elements of a row); unused dims are 1. A weight matrix [inputs, outputs] maps inputs to
// outputs.
struct TensorView {
  std::string name;
  DType dtype = DType::kF32;
  uint32_t num_dims = 0;
  std::array<uint64_t, 4> dims = {1, 1, 1, 1};
  std::span<const uint8_t> data;  // Exactly RowBytes(dtype, dims[0]) * dims[1] * dims[2] * dims[3] bytes.

  uint64_t row_elements() const { return dims[0]; }
  uint64_t num_rows() const { return dims[1] * dims[2] * dims[3]; }
  size_t row_bytes() const { return RowBytes(dtype, dims[0]); }
  // The bytes of row `i` < num_rows().
  std::span<const uint8_t> row(uint64_t i) const { return data.subspan(i * row_bytes(), row_bytes()); }
};

}  // namespace kvern
