// PackedMatrix: a weight matrix repacked once at load into the order in which the products read it.
// Panels of 16 outputs; inside a panel K in groups of 4 bytes, so that a dot product is one chain per lane. The bytes
// are the same on every target and keep the width of the file's format, scale hierarchy included
// (docs/formats/packed_weights.md).
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

#include "base/aligned_buffer.h"
#include "kvern/status.h"
#include "tensor/tensor_view.h"

namespace kvern {

inline constexpr uint32_t kPanelOutputs = 16;

// What a kernel needs to read a packed matrix; borrowed from a PackedMatrix.
struct PackedMatrixView {
  DType dtype = DType::kF32;
  uint32_t num_outputs = 0;       // Rows of the GGUF tensor (dims[1]).
  uint32_t num_inputs = 0;        // Elements of a row (dims[0]).
  size_t panel_bytes = 0;         // Bytes from one panel to the next.
  const uint8_t* data = nullptr;  // CeilDiv(num_outputs, 16) panels; the missing outputs of the last one are zero.
  uint32_t num_panels() const { return (num_outputs + kPanelOutputs - 1) / kPanelOutputs; }
  // The outputs of panels [begin, end) as a matrix of their own.
  PackedMatrixView Panels(uint32_t begin, uint32_t end) const {
    const uint32_t last = std::min(end * kPanelOutputs, num_outputs);
    return {dtype, last - begin * kPanelOutputs, num_inputs, panel_bytes, data + begin * panel_bytes};
  }
};

class PackedMatrix {
 public:
  PackedMatrix() = default;

  // Bytes that packing a matrix of this type and shape takes.
  static size_t PackedBytes(DType dtype, uint32_t num_outputs, uint32_t num_inputs);
  // An unfilled matrix for `weights` (two dims). kUnsupported / kCorruption where the shape does not suit the type.
  static Result<PackedMatrix> Allocate(const TensorView& weights, MemoryAllocator& allocator);

  // Packs panels [panel_begin, panel_end) of `weights`, the tensor that Allocate saw. Distinct panels may be packed by
  // different threads at once. kCorruption where a scale or float weight is not finite; names tensor and row.
  Status PackPanels(const TensorView& weights, uint32_t panel_begin, uint32_t panel_end);

  // Decodes output `row` back to num_inputs floats: exactly what tensor/quant_formats.h's DecodeRow gives for the
  // file's bytes. Serves embeddings that are tied to the output head, so that they stand in memory once.
  void DecodeRow(uint32_t row, std::span<float> out) const;

  PackedMatrixView view() const { return view_; }
  size_t size_bytes() const { return buffer_.size(); }

 private:
  AlignedBuffer buffer_;
  PackedMatrixView view_;
};

}  // namespace kvern
