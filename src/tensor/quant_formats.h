// Scalar reference decode and encode of the tensor formats of GGUF: the oracle for every packed layout and kernel.
// Decoded values are, bit for bit, those of the `gguf` Python package (tests/golden/tensor_formats_test.cc).
#pragma once

#include <cstdint>
#include <span>

#include "tensor/dtype.h"

namespace kvern {

// out[i] = value i of the row stored in `bytes`.
// out.size() is a multiple of the type's block_elements and bytes.size() is RowBytes(dtype, out.size()): the caller's
// duty (KVERN_DCHECK). Any bytes decode to something; damaged scales give NaN or infinities (see ScalesAreFinite).
void DecodeRow(DType dtype, std::span<const uint8_t> bytes, std::span<float> out);

// The row `values`, all finite, stored in `bytes` (sizes as for DecodeRow). Float types round to nearest even. For
// Q4_0 to Q8_0 the bytes are those of the `gguf` package; for the K types one pass without a search for better
// scales, so a block's error is up to about one and a half of its steps. A scale beyond the range of F16 (weights
// above about 2^19 and more) is stored as infinity.
void EncodeRow(DType dtype, std::span<const float> values, std::span<uint8_t> bytes);

// Whether DecodeRow of these bytes gives finite values only: every scale and minimum (every value of a float type) is
// finite. Reads nothing but those. bytes.size() is a multiple of block_bytes.
bool ScalesAreFinite(DType dtype, std::span<const uint8_t> bytes);

}  // namespace kvern
