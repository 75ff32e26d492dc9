// The bytes of a packed panel, shared by PackedMatrix (which writes them) and the products (which read them).
// docs/formats/packed_weights.md describes them in full.
#pragma once

#include <cstddef>
#include <cstdint>

#include "tensor/dtype.h"

namespace kvern {

// K of a packed matrix at most: bounds the scratch of the products.
inline constexpr uint32_t kMaxPackedInputs = 131072;

// A panel of an integer format is a sequence of records; a record covers `blocks_per_record` blocks of 32 inputs for 16
// outputs. It starts with the scales, then come the codes, block by block:
//   d [16] f16
//   minima only:      m or dmin [16] f16
//   two levels:       the scales (and minima) of each sub-block, below
//   per block, 4 to 6 bits: [4][16][4] nibbles: vector j has k-group j in the low nibbles and k-group j + 4 in the high
//               5 bits:     [16][4] bytes: bit g is bit 4 of the code in k-group g
//               6 bits:     [2][16][4] bytes, one for each half block: bits 2j, 2j + 1 are bits 4, 5 of k-group j
//   per block, 8 bits:      [8][16][4] bytes
// where k-group g holds inputs 4g to 4g + 3, and [16][4] is [output][input of the k-group].
// The two-level formats with minima (Q4_K, Q5_K) keep sub-scales and sub-minima of 6 bits as [8][16] bytes with the low
// nibbles of both (scale low, minimum high), sub-block s in row s, and [4][16] bytes with the upper two bits of both:
// row s / 2, bits 4 * (s % 2) on for the scale, + 2 for the minimum. Q6_K keeps its sub-scales as [16][16] i8.
struct IntFormat {
  int bits;       // Of a code.
  int zero_code;  // The code of the weight 0 (formats without minima).
  bool has_min;
  bool is_two_level;   // d * sub-scale, dmin * sub-minimum.
  int subs_per_block;  // Scales per 32 inputs: 1, or 2 for Q6_K.
  uint32_t blocks_per_record;
  uint32_t sub_scale_bytes;

  constexpr uint32_t block_bytes() const { return bits == 8 ? 512 : 256 + (bits == 5 ? 64 : bits == 6 ? 128 : 0); }
  constexpr uint32_t header_bytes() const { return 32 + (has_min ? 32 : 0) + sub_scale_bytes; }
  constexpr uint32_t record_bytes() const { return header_bytes() + blocks_per_record * block_bytes(); }
};

inline constexpr uint32_t kSubScaleOffsetWithMins = 64;
inline constexpr uint32_t kSubScaleOffsetWithoutMins = 32;

// Of an integer format; the float formats are plain [K][16] elements.
constexpr IntFormat IntFormatOf(DType dtype) {
  switch (dtype) {
    case DType::kQ4_0: return {4, 8, false, false, 1, 1, 0};
    case DType::kQ4_1: return {4, 0, true, false, 1, 1, 0};
    case DType::kQ5_0: return {5, 16, false, false, 1, 1, 0};
    case DType::kQ5_1: return {5, 0, true, false, 1, 1, 0};
    case DType::kQ4_K: return {4, 0, true, true, 1, 8, 192};
    case DType::kQ5_K: return {5, 0, true, true, 1, 8, 192};
    case DType::kQ6_K: return {6, 32, false, true, 2, 8, 256};
    default: return {8, 128, false, false, 1, 1, 0};  // Q8_0
  }
}

}  // namespace kvern
