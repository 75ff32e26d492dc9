// Buffers of one step: arrays of rows that grow to the largest batch seen and are then reused.
#pragma once

#include <cstdint>

#include "base/aligned_buffer.h"
#include "base/checked_math.h"
#include "kernels/kernel_table.h"

namespace kvern {

// [rows][stride] floats. The stride leaves room for whole panels and is no large power of two, whose rows would all
// fall into the same sets of the cache.
class RowBuffer {
 public:
  explicit RowBuffer(uint32_t width) : stride_(RoundUp(width, kPanelOutputs) + (width % 256 == 0 ? 16 : 0)) {}

  Status Reserve(uint32_t num_rows, MemoryAllocator& allocator) {
    const uint64_t num_bytes = num_rows * stride_ * sizeof(float);
    if (num_bytes <= buffer_.size()) return Status::Ok();
    buffer_ = AlignedBuffer();  // Frees before it allocates: the contents of the last step are not needed.
    KVERN_ASSIGN_OR_RETURN(buffer_, allocator.Allocate(num_bytes));
    return Status::Ok();
  }
  float* row(uint64_t i) { return buffer_.as<float>() + i * stride_; }
  size_t stride() const { return stride_; }

 private:
  uint64_t stride_;
  AlignedBuffer buffer_;
};

}  // namespace kvern
