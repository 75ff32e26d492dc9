// PackedInput: the input of one or more products, packed once in each form that their weights read.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "base/aligned_buffer.h"
#include "kernels/kernel_table.h"
#include "kvern/options.h"
#include "model/step_buffers.h"

namespace kvern {

class PackedInput {
 public:
  // A batch of at most this many rows may be packed by every worker for itself (one copy each): that costs less than a
  // barrier. Larger ones have one copy that all workers fill.
  static constexpr uint32_t kPrivateRows = 2;

  PackedInput(const KernelTable& kernels, ActivationMode mode) : kernels_(kernels), mode_(mode) {}

  // `weights` will read this input. Every reader is named before the first Reserve.
  void AddReader(const PackedMatrixView& weights) {
    forms_[static_cast<size_t>(FormFor(weights))].is_needed = true;
    max_inputs_ = std::max(max_inputs_, weights.num_inputs);
  }

  // Room for a batch of `num_rows` rows in `num_workers` copies where it is small, in one copy otherwise.
  Status Reserve(uint32_t num_rows, uint32_t num_workers, MemoryAllocator& allocator) {
    const uint32_t num_copies = num_rows <= kPrivateRows ? num_workers : 1;
    for (size_t i = 0; i < forms_.size(); ++i) {
      Form& form = forms_[i];
      if (!form.is_needed) continue;
      form.copy_bytes = RoundUp(kernels_.activation_bytes(static_cast<ActivationForm>(i), num_rows, max_inputs_), 64);
      if (form.copy_bytes * num_copies <= form.buffer.size()) continue;
      form.buffer = AlignedBuffer();
      KVERN_ASSIGN_OR_RETURN(form.buffer, allocator.Allocate(form.copy_bytes * num_copies));
    }
    return Status::Ok();
  }

  // Packs columns [col_begin, col_end) of rows [row_begin, row_end) of a batch x of num_rows x num_inputs floats.
  // x_stride may be 0: every row is then taken from the same place.
  void Pack(const float* x, size_t x_stride, uint32_t num_rows, uint32_t num_inputs, uint32_t row_begin,
            uint32_t row_end, uint32_t col_begin, uint32_t col_end, uint32_t copy) {
    for (size_t i = 0; i < forms_.size(); ++i) {
      Form& form = forms_[i];
      if (!form.is_needed) continue;
      kernels_.pack_activations({.form = static_cast<ActivationForm>(i),
                                 .x = x,
                                 .x_stride = x_stride,
                                 .num_rows = num_rows,
                                 .num_inputs = num_inputs,
                                 .row_begin = row_begin,
                                 .row_end = row_end,
                                 .col_begin = col_begin,
                                 .col_end = col_end,
                                 .packed = form.buffer.data() + copy * form.copy_bytes});
    }
  }

  ActivationForm FormFor(const PackedMatrixView& weights) const {
    return IsFloat(weights.dtype) || mode_ == ActivationMode::kF32 ? ActivationForm::kF32 : ActivationForm::kInt8;
  }
  const uint8_t* data(ActivationForm form, uint32_t copy) const {
    const Form& f = forms_[static_cast<size_t>(form)];
    return f.buffer.data() + copy * f.copy_bytes;
  }

 private:
  struct Form {
    bool is_needed = false;
    size_t copy_bytes = 0;
    AlignedBuffer buffer;
  };

  const KernelTable& kernels_;
  const ActivationMode mode_;
  uint32_t max_inputs_ = 0;
  std::array<Form, 2> forms_;  // Indexed by ActivationForm.
};

}  // namespace kvern
