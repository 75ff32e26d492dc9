#include "kernels/packed_matrix.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <string>

#include "base/check.h"
#include "base/checked_math.h"
#include "kernels/packed_layout.h"
#include "tensor/quant_formats.h"

// Packing moves bytes, 16 outputs at a time: for each output, one block of the file (tensor/quant_formats.cc lists
// their layouts) becomes its lane of a packed record. Codes move in words of four bytes, one k-group each.

namespace kvern {
namespace {

constexpr uint32_t kLowNibbles = 0x0f0f0f0f;
constexpr uint32_t kHighNibbles = 0xf0f0f0f0;
constexpr size_t kVectorBytes = 64;  // [16 outputs][4 inputs]

uint32_t LoadWord(const uint8_t* p) {
  uint32_t word;
  std::memcpy(&word, p, sizeof(word));
  return word;
}
void StoreWord(uint32_t word, uint8_t* p) { std::memcpy(p, &word, sizeof(word)); }

// A lane's word of vector `vector` in a block of packed codes.
uint8_t* LaneWord(uint8_t* block, int vector, int lane) { return block + vector * kVectorBytes + lane * 4; }
const uint8_t* LaneWord(const uint8_t* block, int vector, int lane) { return block + vector * kVectorBytes + lane * 4; }

void CopyHalf(const uint8_t* from, uint8_t* halves, int lane) { std::memcpy(halves + lane * 2, from, 2); }

// The 16 bytes of nibbles of the types with 32 elements are packed as they are: the low nibbles are k-groups 0 to 3.
void PackNibbles(const uint8_t* qs, uint8_t* block, int lane) {
  for (int j = 0; j < 4; ++j) StoreWord(LoadWord(qs + 4 * j), LaneWord(block, j, lane));
}
void UnpackNibbles(const uint8_t* block, int lane, uint8_t* qs) {
  for (int j = 0; j < 4; ++j) StoreWord(LoadWord(LaneWord(block, j, lane)), qs + 4 * j);
}

// Swaps the bits of `x` selected by `mask` with those `shift` above.
constexpr uint32_t SwapBits(uint32_t x, uint32_t mask, int shift) {
  const uint32_t difference = ((x >> shift) ^ x) & mask;
  return x ^ difference ^ (difference << shift);
}
// Bit 4g + i of `x` becomes bit 8i + g (g < 8, i < 4): two perfect unshuffles.
constexpr uint32_t Unshuffle(uint32_t x) {
  x = SwapBits(x, 0x22222222, 1);
  x = SwapBits(x, 0x0c0c0c0c, 2);
  x = SwapBits(x, 0x00f000f0, 4);
  return SwapBits(x, 0x0000ff00, 8);
}
constexpr uint32_t Shuffle(uint32_t x) {
  x = SwapBits(x, 0x0000ff00, 8);
  x = SwapBits(x, 0x00f000f0, 4);
  x = SwapBits(x, 0x0c0c0c0c, 2);
  return SwapBits(x, 0x22222222, 1);
}
constexpr uint32_t FifthBitsToPacked(uint32_t qh) { return Unshuffle(Unshuffle(qh)); }
constexpr uint32_t FifthBitsFromPacked(uint32_t packed) { return Shuffle(Shuffle(packed)); }
static_assert(FifthBitsToPacked(1u << 1) == 1u << 8 && FifthBitsToPacked(1u << 4) == 1u << 1 &&
              FifthBitsToPacked(1u << 31) == 1u << 31 && FifthBitsToPacked(1u << 6) == 1u << 17);

// ---- One output's block into lane `lane` of `record`, and back. `record` starts with the scales (packed_layout.h).

void PackQ4_0(const uint8_t* file, uint8_t* record, int lane) {
  CopyHalf(file, record, lane);
  PackNibbles(file + 2, record + 32, lane);
}
void UnpackQ4_0(const uint8_t* record, int lane, uint8_t* file) {
  std::memcpy(file, record + lane * 2, 2);
  UnpackNibbles(record + 32, lane, file + 2);
}

void PackQ4_1(const uint8_t* file, uint8_t* record, int lane) {
  CopyHalf(file, record, lane);
  CopyHalf(file + 2, record + 32, lane);
  PackNibbles(file + 4, record + 64, lane);
}
void UnpackQ4_1(const uint8_t* record, int lane, uint8_t* file) {
  std::memcpy(file, record + lane * 2, 2);
  std::memcpy(file + 2, record + 32 + lane * 2, 2);
  UnpackNibbles(record + 64, lane, file + 4);
}

void PackQ5_0(const uint8_t* file, uint8_t* record, int lane) {
  CopyHalf(file, record, lane);
  StoreWord(FifthBitsToPacked(LoadWord(file + 2)), LaneWord(record + 32, 4, lane));
  PackNibbles(file + 6, record + 32, lane);
}
void UnpackQ5_0(const uint8_t* record, int lane, uint8_t* file) {
  std::memcpy(file, record + lane * 2, 2);
  StoreWord(FifthBitsFromPacked(LoadWord(LaneWord(record + 32, 4, lane))), file + 2);
  UnpackNibbles(record + 32, lane, file + 6);
}

void PackQ5_1(const uint8_t* file, uint8_t* record, int lane) {
  CopyHalf(file, record, lane);
  CopyHalf(file + 2, record + 32, lane);
  StoreWord(FifthBitsToPacked(LoadWord(file + 4)), LaneWord(record + 64, 4, lane));
  PackNibbles(file + 8, record + 64, lane);
}
void UnpackQ5_1(const uint8_t* record, int lane, uint8_t* file) {
  std::memcpy(file, record + lane * 2, 2);
  std::memcpy(file + 2, record + 32 + lane * 2, 2);
  StoreWord(FifthBitsFromPacked(LoadWord(LaneWord(record + 64, 4, lane))), file + 4);
  UnpackNibbles(record + 64, lane, file + 8);
}

// i8 codes are stored plus 128.
void PackQ8_0(const uint8_t* file, uint8_t* record, int lane) {
  CopyHalf(file, record, lane);
  for (int g = 0; g < 8; ++g) StoreWord(LoadWord(file + 2 + 4 * g) ^ 0x80808080u, LaneWord(record + 32, g, lane));
}
void UnpackQ8_0(const uint8_t* record, int lane, uint8_t* file) {
  std::memcpy(file, record + lane * 2, 2);
  for (int g = 0; g < 8; ++g) StoreWord(LoadWord(LaneWord(record + 32, g, lane)) ^ 0x80808080u, file + 2 + 4 * g);
}

// The 12 bytes of 6-bit scales and minima of Q4_K and Q5_K; see quant_formats.cc for the file's order.
void PackSubScales(const uint8_t* file, uint8_t* rows, int lane) {
  std::array<uint8_t, 8> scales, mins;
  for (int j = 0; j < 4; ++j) {
    scales[j] = file[j] & 0x3f;
    mins[j] = file[4 + j] & 0x3f;
    scales[4 + j] = static_cast<uint8_t>((file[8 + j] & 0x0f) | ((file[j] >> 2) & 0x30));
    mins[4 + j] = static_cast<uint8_t>((file[8 + j] >> 4) | ((file[4 + j] >> 2) & 0x30));
  }
  for (int s = 0; s < 8; ++s) {
    rows[s * 16 + lane] = static_cast<uint8_t>((scales[s] & 0x0f) | (mins[s] << 4));
  }
  for (int s = 0; s < 8; s += 2) {
    rows[128 + s * 8 + lane] = static_cast<uint8_t>((scales[s] >> 4) | ((mins[s] >> 4) << 2) |
                                                    ((scales[s + 1] >> 4) << 4) | ((mins[s + 1] >> 4) << 6));
  }
}
void UnpackSubScales(const uint8_t* rows, int lane, uint8_t* file) {
  std::array<uint8_t, 8> scales, mins;
  for (int s = 0; s < 8; ++s) {
    const int low = rows[s * 16 + lane];
    const int high = rows[128 + s / 2 * 16 + lane] >> (s % 2 * 4);
    scales[s] = static_cast<uint8_t>((low & 0x0f) | ((high & 0x03) << 4));
    mins[s] = static_cast<uint8_t>((low >> 4) | ((high & 0x0c) << 2));
  }
  for (int j = 0; j < 4; ++j) {
    file[j] = static_cast<uint8_t>(scales[j] | ((scales[4 + j] & 0x30) << 2));
    file[4 + j] = static_cast<uint8_t>(mins[j] | ((mins[4 + j] & 0x30) << 2));
    file[8 + j] = static_cast<uint8_t>((scales[4 + j] & 0x0f) | ((mins[4 + j] & 0x0f) << 4));
  }
}

// Q4_K and Q5_K. 32 bytes of the file hold two blocks, the first in the low nibbles; packed, each block has its own.
constexpr uint32_t kHeaderOfQ45K = IntFormatOf(DType::kQ4_K).header_bytes();

void PackNibblesOfPairs(const uint8_t* qs, uint8_t* blocks, size_t block_bytes, int lane) {
  for (int pair = 0; pair < 4; ++pair, qs += 32, blocks += 2 * block_bytes) {
    for (int j = 0; j < 4; ++j) {
      const uint32_t first = LoadWord(qs + 4 * j), second = LoadWord(qs + 16 + 4 * j);
      StoreWord((first & kLowNibbles) | ((second & kLowNibbles) << 4), LaneWord(blocks, j, lane));
      StoreWord(((first & kHighNibbles) >> 4) | (second & kHighNibbles), LaneWord(blocks + block_bytes, j, lane));
    }
  }
}
void UnpackNibblesOfPairs(const uint8_t* blocks, size_t block_bytes, int lane, uint8_t* qs) {
  for (int pair = 0; pair < 4; ++pair, qs += 32, blocks += 2 * block_bytes) {
    for (int j = 0; j < 4; ++j) {
      const uint32_t low = LoadWord(LaneWord(blocks, j, lane));
      const uint32_t high = LoadWord(LaneWord(blocks + block_bytes, j, lane));
      StoreWord((low & kLowNibbles) | ((high & kLowNibbles) << 4), qs + 4 * j);
      StoreWord(((low & kHighNibbles) >> 4) | (high & kHighNibbles), qs + 16 + 4 * j);
    }
  }
}

void PackQ4_K(const uint8_t* file, uint8_t* record, int lane) {
  CopyHalf(file, record, lane);
  CopyHalf(file + 2, record + 32, lane);
  PackSubScales(file + 4, record + kSubScaleOffsetWithMins, lane);
  PackNibblesOfPairs(file + 16, record + kHeaderOfQ45K, IntFormatOf(DType::kQ4_K).block_bytes(), lane);
}
void UnpackQ4_K(const uint8_t* record, int lane, uint8_t* file) {
  std::memcpy(file, record + lane * 2, 2);
  std::memcpy(file + 2, record + 32 + lane * 2, 2);
  UnpackSubScales(record + kSubScaleOffsetWithMins, lane, file + 4);
  UnpackNibblesOfPairs(record + kHeaderOfQ45K, IntFormatOf(DType::kQ4_K).block_bytes(), lane, file + 16);
}

// Bit s of qh[i] is bit 4 of code i in block s.
void PackQ5_K(const uint8_t* file, uint8_t* record, int lane) {
  constexpr size_t kBlockBytes = IntFormatOf(DType::kQ5_K).block_bytes();
  CopyHalf(file, record, lane);
  CopyHalf(file + 2, record + 32, lane);
  PackSubScales(file + 4, record + kSubScaleOffsetWithMins, lane);
  PackNibblesOfPairs(file + 48, record + kHeaderOfQ45K, kBlockBytes, lane);
  for (int s = 0; s < 8; ++s) {
    uint32_t packed = 0;
    for (int g = 0; g < 8; ++g) packed |= ((LoadWord(file + 16 + 4 * g) >> s) & 0x01010101u) << g;
    StoreWord(packed, LaneWord(record + kHeaderOfQ45K + s * kBlockBytes, 4, lane));
  }
}
void UnpackQ5_K(const uint8_t* record, int lane, uint8_t* file) {
  constexpr size_t kBlockBytes = IntFormatOf(DType::kQ5_K).block_bytes();
  std::memcpy(file, record + lane * 2, 2);
  std::memcpy(file + 2, record + 32 + lane * 2, 2);
  UnpackSubScales(record + kSubScaleOffsetWithMins, lane, file + 4);
  UnpackNibblesOfPairs(record + kHeaderOfQ45K, kBlockBytes, lane, file + 48);
  for (int g = 0; g < 8; ++g) {
    uint32_t word = 0;
    for (int s = 0; s < 8; ++s) {
      word |= ((LoadWord(LaneWord(record + kHeaderOfQ45K + s * kBlockBytes, 4, lane)) >> g) & 0x01010101u) << s;
    }
    StoreWord(word, file + 16 + 4 * g);
  }
}

// Where block b (0-7) of Q6_K lies in the file: 32 bytes of ql from `low_byte` on, of which it has the nibbles at
// `low_shift`, and 32 bytes of qh from `high_byte` on, of which it has the two bits at `high_shift`.
struct Q6BlockPlace {
  int low_byte, low_shift, high_byte, high_shift;
};
constexpr Q6BlockPlace PlaceOfQ6Block(int b) { return {b / 4 * 64 + b % 2 * 32, b % 4 / 2 * 4, b / 4 * 32, b % 4 * 2}; }
constexpr uint32_t kHeaderOfQ6K = IntFormatOf(DType::kQ6_K).header_bytes();
constexpr uint32_t kBlockBytesOfQ6K = IntFormatOf(DType::kQ6_K).block_bytes();

void PackQ6_K(const uint8_t* file, uint8_t* record, int lane) {
  const uint8_t *ql = file, *qh = file + 128, *scales = file + 192;
  CopyHalf(file + 208, record, lane);
  for (int s = 0; s < 16; ++s) record[kSubScaleOffsetWithoutMins + s * 16 + lane] = scales[s];
  for (int b = 0; b < 8; ++b) {
    const Q6BlockPlace place = PlaceOfQ6Block(b);
    uint8_t* block = record + kHeaderOfQ6K + static_cast<uint32_t>(b) * kBlockBytesOfQ6K;
    for (int j = 0; j < 4; ++j) {
      const uint32_t first = LoadWord(ql + place.low_byte + 4 * j) >> place.low_shift;
      const uint32_t second = LoadWord(ql + place.low_byte + 16 + 4 * j) >> place.low_shift;
      StoreWord((first & kLowNibbles) | ((second & kLowNibbles) << 4), LaneWord(block, j, lane));
    }
    for (int half = 0; half < 2; ++half) {
      uint32_t packed = 0;
      for (int j = 0; j < 4; ++j) {
        packed |= ((LoadWord(qh + place.high_byte + half * 16 + 4 * j) >> place.high_shift) & 0x03030303u) << (2 * j);
      }
      StoreWord(packed, LaneWord(block, 4 + half, lane));
    }
  }
}
void UnpackQ6_K(const uint8_t* record, int lane, uint8_t* file) {
  uint8_t *ql = file, *qh = file + 128, *scales = file + 192;
  std::memset(file, 0, 192);
  std::memcpy(file + 208, record + lane * 2, 2);
  for (int s = 0; s < 16; ++s) scales[s] = record[kSubScaleOffsetWithoutMins + s * 16 + lane];
  const auto or_word = [](uint32_t word, uint8_t* p) { StoreWord(LoadWord(p) | word, p); };
  for (int b = 0; b < 8; ++b) {
    const Q6BlockPlace place = PlaceOfQ6Block(b);
    const uint8_t* block = record + kHeaderOfQ6K + static_cast<uint32_t>(b) * kBlockBytesOfQ6K;
    for (int j = 0; j < 4; ++j) {
      const uint32_t word = LoadWord(LaneWord(block, j, lane));
      or_word((word & kLowNibbles) << place.low_shift, ql + place.low_byte + 4 * j);
      or_word(((word >> 4) & kLowNibbles) << place.low_shift, ql + place.low_byte + 16 + 4 * j);
      for (int half = 0; half < 2; ++half) {
        const uint32_t high = (LoadWord(LaneWord(block, 4 + half, lane)) >> (2 * j)) & 0x03030303u;
        or_word(high << place.high_shift, qh + place.high_byte + half * 16 + 4 * j);
      }
    }
  }
}

// A float element is a record of its own: 16 elements, one per lane.
template <size_t kBytes>
void PackElement(const uint8_t* file, uint8_t* record, int lane) {
  std::memcpy(record + static_cast<size_t>(lane) * kBytes, file, kBytes);
}
template <size_t kBytes>
void UnpackElement(const uint8_t* record, int lane, uint8_t* file) {
  std::memcpy(file, record + static_cast<size_t>(lane) * kBytes, kBytes);
}

// Packs one panel: `rows` are its 16 outputs' bytes in the file; a missing output's are those of `zeros`, one block
// long.
using PackPanelFunction = void (*)(const std::array<const uint8_t*, kPanelOutputs>& rows, size_t num_blocks,
                                   uint8_t* panel);
using UnpackBlockFunction = void (*)(const uint8_t* record, int lane, uint8_t* file);

alignas(64) constexpr std::array<uint8_t, 256> kZeroBlock = {};

template <DType kType>
constexpr uint32_t RecordBytes() {
  if (kType == DType::kF32) return 64;
  if (IsFloat(kType)) return 32;
  return IntFormatOf(kType).record_bytes();
}

template <DType kType, uint32_t kBlockBytes, void (*kPackBlock)(const uint8_t*, uint8_t*, int)>
void PackPanel(const std::array<const uint8_t*, kPanelOutputs>& rows, size_t num_blocks, uint8_t* panel) {
  for (size_t b = 0; b < num_blocks; ++b, panel += RecordBytes<kType>()) {
    for (int lane = 0; lane < static_cast<int>(kPanelOutputs); ++lane) {
      const uint8_t* row = rows[static_cast<size_t>(lane)];
      kPackBlock(row == nullptr ? kZeroBlock.data() : row + b * kBlockBytes, panel, lane);
    }
  }
}

struct Packing {
  uint32_t record_bytes;  // Of one file block of 16 outputs.
  PackPanelFunction pack;
  UnpackBlockFunction unpack;
};

template <DType kType, uint32_t kBlockBytes, void (*kPackBlock)(const uint8_t*, uint8_t*, int)>
constexpr Packing MakePacking(UnpackBlockFunction unpack) {
  static_assert(kBlockBytes <= kZeroBlock.size());
  static_assert(RecordBytes<kType>() == kBlockBytes * kPanelOutputs, "packed weights keep the file's width");
  return {RecordBytes<kType>(), PackPanel<kType, kBlockBytes, kPackBlock>, unpack};
}

Packing PackingOf(DType dtype) {
  switch (dtype) {
    case DType::kF32: return MakePacking<DType::kF32, 4, PackElement<4>>(UnpackElement<4>);
    case DType::kF16: return MakePacking<DType::kF16, 2, PackElement<2>>(UnpackElement<2>);
    case DType::kBF16: return MakePacking<DType::kBF16, 2, PackElement<2>>(UnpackElement<2>);
    case DType::kQ4_0: return MakePacking<DType::kQ4_0, 18, PackQ4_0>(UnpackQ4_0);
    case DType::kQ4_1: return MakePacking<DType::kQ4_1, 20, PackQ4_1>(UnpackQ4_1);
    case DType::kQ5_0: return MakePacking<DType::kQ5_0, 22, PackQ5_0>(UnpackQ5_0);
    case DType::kQ5_1: return MakePacking<DType::kQ5_1, 24, PackQ5_1>(UnpackQ5_1);
    case DType::kQ8_0: return MakePacking<DType::kQ8_0, 34, PackQ8_0>(UnpackQ8_0);
    case DType::kQ4_K: return MakePacking<DType::kQ4_K, 144, PackQ4_K>(UnpackQ4_K);
    case DType::kQ5_K: return MakePacking<DType::kQ5_K, 176, PackQ5_K>(UnpackQ5_K);
    case DType::kQ6_K: return MakePacking<DType::kQ6_K, 210, PackQ6_K>(UnpackQ6_K);
  }
  KVERN_CHECK(false);
}

uint64_t NumPanels(uint32_t num_outputs) { return CeilDiv(num_outputs, kPanelOutputs); }

}  // namespace

size_t PackedMatrix::PackedBytes(DType dtype, uint32_t num_outputs, uint32_t num_inputs) {
  return NumPanels(num_outputs) * RowBytes(dtype, num_inputs) * kPanelOutputs;
}

Result<PackedMatrix> PackedMatrix::Allocate(const TensorView& weights, MemoryAllocator& allocator) {
  const DTypeInfo& info = GetDTypeInfo(weights.dtype);
  const uint64_t num_inputs = weights.dims[0], num_outputs = weights.dims[1];
  const std::string where = "tensor " + weights.name + ": ";
  if (weights.num_dims > 2 || weights.dims[2] != 1 || weights.dims[3] != 1) {
    return Status::Unsupported(where + "a weight matrix with " + std::to_string(weights.num_dims) +
                               " dimensions, expected 2");
  }
  if (num_inputs == 0 || num_inputs > kMaxPackedInputs || num_outputs > UINT32_MAX - kPanelOutputs) {
    return Status::Unsupported(where + "a weight matrix of " + std::to_string(num_inputs) + " inputs and " +
                               std::to_string(num_outputs) + " outputs, expected 1 to " +
                               std::to_string(kMaxPackedInputs) + " inputs");
  }
  if (num_inputs % info.block_elements != 0) {
    return Status::Corruption(where + std::to_string(num_inputs) + " inputs, expected a multiple of " +
                              std::to_string(info.block_elements) + " for " + std::string(info.name));
  }
  const uint64_t expected_bytes = num_outputs * RowBytes(weights.dtype, num_inputs);
  if (weights.data.size() != expected_bytes) {
    return Status::Corruption(where + std::to_string(weights.data.size()) + " bytes, expected " +
                              std::to_string(expected_bytes));
  }
  PackedMatrix matrix;
  const size_t num_bytes =
      PackedBytes(weights.dtype, static_cast<uint32_t>(num_outputs), static_cast<uint32_t>(num_inputs));
  KVERN_ASSIGN_OR_RETURN(matrix.buffer_, allocator.Allocate(num_bytes));
  matrix.view_.dtype = weights.dtype;
  matrix.view_.num_outputs = static_cast<uint32_t>(num_outputs);
  matrix.view_.num_inputs = static_cast<uint32_t>(num_inputs);
  matrix.view_.panel_bytes = RowBytes(weights.dtype, num_inputs) * kPanelOutputs;
  matrix.view_.data = matrix.buffer_.data();
  return matrix;
}

Status PackedMatrix::PackPanels(const TensorView& weights, uint32_t panel_begin, uint32_t panel_end) {
  KVERN_CHECK(weights.dtype == view_.dtype && weights.dims[0] == view_.num_inputs &&
              weights.dims[1] == view_.num_outputs && panel_end <= view_.num_panels());
  const Packing packing = PackingOf(view_.dtype);
  const size_t num_blocks = view_.num_inputs / GetDTypeInfo(view_.dtype).block_elements;
  for (uint32_t panel = panel_begin; panel < panel_end; ++panel) {
    std::array<const uint8_t*, kPanelOutputs> rows = {};
    for (uint32_t lane = 0; lane < kPanelOutputs; ++lane) {
      const uint64_t row = static_cast<uint64_t>(panel) * kPanelOutputs + lane;
      if (row >= view_.num_outputs) break;
      const std::span<const uint8_t> bytes = weights.row(row);
      if (!ScalesAreFinite(view_.dtype, bytes)) {
        return Status::Corruption(
            "tensor " + weights.name + ": row " + std::to_string(row) +
            (IsFloat(view_.dtype) ? " holds a value that is not finite" : " holds a scale that is not finite"));
      }
      rows[lane] = bytes.data();
    }
    packing.pack(rows, num_blocks, buffer_.data() + panel * view_.panel_bytes);
  }
  return Status::Ok();
}

void PackedMatrix::DecodeRow(uint32_t row, std::span<float> out) const {
  KVERN_DCHECK(row < view_.num_outputs && out.size() == view_.num_inputs);
  const Packing packing = PackingOf(view_.dtype);
  const DTypeInfo& info = GetDTypeInfo(view_.dtype);
  const int lane = static_cast<int>(row % kPanelOutputs);
  const uint8_t* record = view_.data + row / kPanelOutputs * view_.panel_bytes;
  std::array<uint8_t, 1024> file;
  const size_t blocks_at_once = file.size() / info.block_bytes;
  for (size_t done = 0; done < out.size();) {
    const size_t num_blocks = std::min(blocks_at_once, (out.size() - done) / info.block_elements);
    for (size_t b = 0; b < num_blocks; ++b, record += packing.record_bytes) {
      packing.unpack(record, lane, file.data() + b * info.block_bytes);
    }
    const size_t num_elements = num_blocks * info.block_elements;
    kvern::DecodeRow(view_.dtype, std::span(file).first(num_blocks * info.block_bytes),
                     out.subspan(done, num_elements));
    done += num_elements;
  }
}

}  // namespace kvern
