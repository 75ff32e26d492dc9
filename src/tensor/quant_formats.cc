#include "tensor/quant_formats.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "base/byte_reader.h"
#include "base/check.h"
#include "tensor/half.h"

// Block layouts, in the order of the bytes (d: scale, m: minimum, f16 each):
//   Q4_0  d, qs[16]            value i      = d * (code - 8); the low nibbles of qs are values 0-15, the high ones
//   16-31 Q4_1  d, m, qs[16]                        d * code + m Q5_0  d, qh[4], qs[16]                    d * (code -
//   16); bit i of qh is bit 4 of code i Q5_1  d, m, qh[4], qs[16]                 d * code + m Q8_0  d, codes[32] i8 d
//   * code Q4_K  d, dmin, scales[12], qs[128]        (d * scale_j) * code - (dmin * min_j), j = i / 32; each 32 bytes
//   of qs
//                                             hold two sub-blocks, low nibbles first
//   Q5_K  d, dmin, scales[12], qh[32], qs[128]  the same; bit j of qh[i % 32] is bit 4 of code i
//   Q6_K  ql[128], qh[64], scales[16] i8, d   (d * scale_j) * (code - 32), j = i / 16
// Products and sums are rounded one by one, in the order written here.

namespace kvern {
namespace {

constexpr int kSuperBlock = 256;

float LoadF16(const uint8_t* bytes) { return F16ToF32(LoadLittleEndian<uint16_t>(bytes)); }
void StoreF16(float value, uint8_t* bytes) { StoreLittleEndian<uint16_t>(F32ToF16(value), bytes); }

// Code i (0-31) of the 16 bytes of nibbles that the 4- and 5-bit types share.
int Nibble(const uint8_t* qs, int i) { return i < 16 ? qs[i] & 0x0f : qs[i - 16] >> 4; }
int FifthBit(uint32_t qh, int i) { return static_cast<int>((qh >> i) & 1u) << 4; }

void DecodeQ4_0(const uint8_t* block, float* out) {
  const float d = LoadF16(block);
  for (int i = 0; i < 32; ++i) out[i] = d * static_cast<float>(Nibble(block + 2, i) - 8);
}

void DecodeQ4_1(const uint8_t* block, float* out) {
  const float d = LoadF16(block);
  const float m = LoadF16(block + 2);
  for (int i = 0; i < 32; ++i) out[i] = d * static_cast<float>(Nibble(block + 4, i)) + m;
}

void DecodeQ5_0(const uint8_t* block, float* out) {
  const float d = LoadF16(block);
  const uint32_t qh = LoadLittleEndian<uint32_t>(block + 2);
  for (int i = 0; i < 32; ++i) out[i] = d * static_cast<float>((Nibble(block + 6, i) | FifthBit(qh, i)) - 16);
}

void DecodeQ5_1(const uint8_t* block, float* out) {
  const float d = LoadF16(block);
  const float m = LoadF16(block + 2);
  const uint32_t qh = LoadLittleEndian<uint32_t>(block + 4);
  for (int i = 0; i < 32; ++i) out[i] = d * static_cast<float>(Nibble(block + 8, i) | FifthBit(qh, i)) + m;
}

void DecodeQ8_0(const uint8_t* block, float* out) {
  const float d = LoadF16(block);
  for (int i = 0; i < 32; ++i) out[i] = static_cast<float>(static_cast<int8_t>(block[2 + i])) * d;
}

// The eight 6-bit scales and minima in the 12 bytes of Q4_K and Q5_K: 0-3 in the low 6 bits of bytes 0-3 (minima: 4-7);
// 4-7 in the nibbles of bytes 8-11 (scale low, minimum high) with their upper two bits on top of bytes 0-3 (4-7).
struct ScalesAndMins {
  std::array<uint8_t, 8> scales;
  std::array<uint8_t, 8> mins;
};

ScalesAndMins UnpackScales(const uint8_t* packed) {
  ScalesAndMins result;
  for (int j = 0; j < 4; ++j) {
    result.scales[j] = packed[j] & 0x3f;
    result.mins[j] = packed[4 + j] & 0x3f;
    result.scales[4 + j] = static_cast<uint8_t>((packed[8 + j] & 0x0f) | ((packed[j] >> 2) & 0x30));
    result.mins[4 + j] = static_cast<uint8_t>((packed[8 + j] >> 4) | ((packed[4 + j] >> 2) & 0x30));
  }
  return result;
}

void PackScales(const ScalesAndMins& unpacked, uint8_t* packed) {
  for (int j = 0; j < 4; ++j) {
    packed[j] = static_cast<uint8_t>(unpacked.scales[j] | ((unpacked.scales[4 + j] & 0x30) << 2));
    packed[4 + j] = static_cast<uint8_t>(unpacked.mins[j] | ((unpacked.mins[4 + j] & 0x30) << 2));
    packed[8 + j] = static_cast<uint8_t>((unpacked.scales[4 + j] & 0x0f) | ((unpacked.mins[4 + j] & 0x0f) << 4));
  }
}

// Q4_K (qh == nullptr) and Q5_K.
void DecodeQ45K(const uint8_t* block, const uint8_t* qh, const uint8_t* qs, float* out) {
  const float d = LoadF16(block);
  const float dmin = LoadF16(block + 2);
  const ScalesAndMins sub = UnpackScales(block + 4);
  for (int j = 0; j < 8; ++j) {
    const float scale = d * static_cast<float>(sub.scales[j]);
    const float min = dmin * static_cast<float>(sub.mins[j]);
    for (int i = 0; i < 32; ++i) {
      const uint8_t pair = qs[(j / 2) * 32 + i];
      int code = j % 2 == 0 ? pair & 0x0f : pair >> 4;
      if (qh != nullptr) code |= ((qh[i] >> j) & 1) << 4;
      out[j * 32 + i] = scale * static_cast<float>(code) - min;
    }
  }
}

void DecodeQ4_K(const uint8_t* block, float* out) { DecodeQ45K(block, nullptr, block + 16, out); }
void DecodeQ5_K(const uint8_t* block, float* out) { DecodeQ45K(block, block + 16, block + 48, out); }

// Where code i (0-255) of Q6_K lies: a nibble of ql and two bits of qh.
struct Q6Place {
  int low_byte, low_shift, high_byte, high_shift;
};

Q6Place PlaceOfQ6(int i) {
  const int half = i / 128, in_half = i % 128;
  return {half * 64 + in_half % 64, in_half / 64 * 4, half * 32 + in_half % 32, in_half / 32 * 2};
}

void DecodeQ6_K(const uint8_t* block, float* out) {
  const uint8_t* ql = block;
  const uint8_t* qh = block + 128;
  const uint8_t* scales = block + 192;
  const float d = LoadF16(block + 208);
  for (int i = 0; i < kSuperBlock; ++i) {
    const Q6Place place = PlaceOfQ6(i);
    const int low = (ql[place.low_byte] >> place.low_shift) & 0x0f;
    const int high = (qh[place.high_byte] >> place.high_shift) & 0x03;
    const float scale = d * static_cast<float>(static_cast<int8_t>(scales[i / 16]));
    out[i] = scale * static_cast<float>((low | (high << 4)) - 32);
  }
}

// 1 / d, or 0 where that is no finite number: such a block holds zeros or nothing that its scale could resolve.
float InverseOrZero(float d) {
  const float inverse = 1.0f / d;
  return std::isfinite(inverse) ? inverse : 0.0f;
}

// x held to low .. high; NaN (which only values that are not finite can give) becomes low.
float Hold(float x, int low, int high) {
  if (!(x >= static_cast<float>(low))) return static_cast<float>(low);
  return std::min(x, static_cast<float>(high));
}

// The integer part of x, held to 0 .. max.
int TruncateTo(float x, int max) { return static_cast<int>(Hold(x, 0, max)); }
// x to the nearest integer (half away from zero), held to low .. high.
int RoundTo(float x, int low, int high) { return static_cast<int>(std::round(Hold(x, low, high))); }

float ValueOfLargestMagnitude(const float* values, int count) {
  return *std::max_element(values, values + count, [](float a, float b) { return std::fabs(a) < std::fabs(b); });
}

void StoreNibbles(const std::array<uint8_t, 32>& codes, uint8_t* qs) {
  for (int i = 0; i < 16; ++i) qs[i] = static_cast<uint8_t>((codes[i] & 0x0f) | (codes[16 + i] << 4));
}

void StoreFifthBits(const std::array<uint8_t, 32>& codes, uint8_t* qh) {
  uint32_t bits = 0;
  for (int i = 0; i < 32; ++i) bits |= static_cast<uint32_t>(codes[i] >> 4) << i;
  StoreLittleEndian<uint32_t>(bits, qh);
}

// Codes of Q4_0 (max_code 15) and Q5_0 (31): the value of largest magnitude becomes code 0. Returns the scale.
float SymmetricCodes(const float* values, int max_code, std::array<uint8_t, 32>& codes) {
  const int zero_code = (max_code + 1) / 2;
  const float d = ValueOfLargestMagnitude(values, 32) / static_cast<float>(-zero_code);
  const float inverse = InverseOrZero(d);
  for (int i = 0; i < 32; ++i) {
    const float code = values[i] * inverse + (static_cast<float>(zero_code) + 0.5f);
    codes[i] = static_cast<uint8_t>(TruncateTo(code, max_code));
  }
  return d;
}

// Codes of Q4_1 (max_code 15) and Q5_1 (31), with the block's scale and minimum.
struct ScaleAndMin {
  float d, m;
};

ScaleAndMin AffineCodes(const float* values, int max_code, std::array<uint8_t, 32>& codes) {
  const auto [min, max] = std::minmax_element(values, values + 32);
  const float d = (*max - *min) / static_cast<float>(max_code);
  const float inverse = InverseOrZero(d);
  for (int i = 0; i < 32; ++i) {
    codes[i] = static_cast<uint8_t>(TruncateTo((values[i] - *min) * inverse + 0.5f, max_code));
  }
  return {d, *min};
}

void EncodeQ4_0(const float* values, uint8_t* block) {
  std::array<uint8_t, 32> codes;
  StoreF16(SymmetricCodes(values, 15, codes), block);
  StoreNibbles(codes, block + 2);
}

void EncodeQ4_1(const float* values, uint8_t* block) {
  std::array<uint8_t, 32> codes;
  const ScaleAndMin scale = AffineCodes(values, 15, codes);
  StoreF16(scale.d, block);
  StoreF16(scale.m, block + 2);
  StoreNibbles(codes, block + 4);
}

void EncodeQ5_0(const float* values, uint8_t* block) {
  std::array<uint8_t, 32> codes;
  StoreF16(SymmetricCodes(values, 31, codes), block);
  StoreFifthBits(codes, block + 2);
  StoreNibbles(codes, block + 6);
}

void EncodeQ5_1(const float* values, uint8_t* block) {
  std::array<uint8_t, 32> codes;
  const ScaleAndMin scale = AffineCodes(values, 31, codes);
  StoreF16(scale.d, block);
  StoreF16(scale.m, block + 2);
  StoreFifthBits(codes, block + 4);
  StoreNibbles(codes, block + 8);
}

void EncodeQ8_0(const float* values, uint8_t* block) {
  const float d = std::fabs(ValueOfLargestMagnitude(values, 32)) / 127.0f;
  const float inverse = InverseOrZero(d);
  StoreF16(d, block);
  for (int i = 0; i < 32; ++i) {
    block[2 + i] = static_cast<uint8_t>(static_cast<int8_t>(RoundTo(values[i] * inverse, -127, 127)));
  }
}

// Q4_K (qh == nullptr, max_code 15) and Q5_K (31). The scale of each 32 values is stored in 1/63 of the largest,
// rounded up so that the codes still reach every value.
void EncodeQ45K(const float* values, int max_code, uint8_t* block, uint8_t* qh, uint8_t* qs) {
  std::array<float, 8> scales, mins;
  for (int j = 0; j < 8; ++j) {
    const auto [min, max] = std::minmax_element(values + j * 32, values + (j + 1) * 32);
    mins[j] = std::max(0.0f, -*min);
    scales[j] = (std::max(0.0f, *max) + mins[j]) / static_cast<float>(max_code);
  }
  StoreF16(*std::max_element(scales.begin(), scales.end()) / 63.0f, block);
  StoreF16(*std::max_element(mins.begin(), mins.end()) / 63.0f, block + 2);
  const float d = LoadF16(block);
  const float dmin = LoadF16(block + 2);

  ScalesAndMins sub;
  for (int j = 0; j < 8; ++j) {
    sub.mins[j] = static_cast<uint8_t>(RoundTo(mins[j] * InverseOrZero(dmin), 0, 63));
    const float reach = scales[j] + (dmin * static_cast<float>(sub.mins[j]) - mins[j]) / static_cast<float>(max_code);
    sub.scales[j] = static_cast<uint8_t>(RoundTo(std::ceil(reach * InverseOrZero(d)), 0, 63));
    const float inverse = InverseOrZero(d * static_cast<float>(sub.scales[j]));
    const float min = dmin * static_cast<float>(sub.mins[j]);
    for (int i = 0; i < 32; ++i) {
      const int code = RoundTo((values[j * 32 + i] + min) * inverse, 0, max_code);
      qs[(j / 2) * 32 + i] |= static_cast<uint8_t>((code & 0x0f) << (j % 2 * 4));
      if (qh != nullptr) qh[i] |= static_cast<uint8_t>((code >> 4) << j);
    }
  }
  PackScales(sub, block + 4);
}

void EncodeQ4_K(const float* values, uint8_t* block) { EncodeQ45K(values, 15, block, nullptr, block + 16); }
void EncodeQ5_K(const float* values, uint8_t* block) { EncodeQ45K(values, 31, block, block + 16, block + 48); }

void EncodeQ6_K(const float* values, uint8_t* block) {
  std::array<float, 16> scales;  // Of the sign that gives the value of largest magnitude the code -32.
  for (int j = 0; j < 16; ++j) scales[j] = ValueOfLargestMagnitude(values + j * 16, 16) / -32.0f;
  StoreF16(std::fabs(ValueOfLargestMagnitude(scales.data(), 16)) / 127.0f, block + 208);
  const float d = LoadF16(block + 208);
  for (int j = 0; j < 16; ++j) {
    const int scale = RoundTo(scales[j] * InverseOrZero(d), -127, 127);
    block[192 + j] = static_cast<uint8_t>(static_cast<int8_t>(scale));
    const float inverse = InverseOrZero(d * static_cast<float>(scale));
    for (int i = j * 16; i < (j + 1) * 16; ++i) {
      const int code = RoundTo(values[i] * inverse, -32, 31) + 32;
      const Q6Place place = PlaceOfQ6(i);
      block[place.low_byte] |= static_cast<uint8_t>((code & 0x0f) << place.low_shift);
      block[128 + place.high_byte] |= static_cast<uint8_t>((code >> 4) << place.high_shift);
    }
  }
}

void DecodeF32(const uint8_t* bytes, float* out) { *out = LoadLittleEndian<float>(bytes); }
void DecodeF16(const uint8_t* bytes, float* out) { *out = LoadF16(bytes); }
void DecodeBf16(const uint8_t* bytes, float* out) { *out = Bf16ToF32(LoadLittleEndian<uint16_t>(bytes)); }
void EncodeF32(const float* value, uint8_t* bytes) { StoreLittleEndian<float>(*value, bytes); }
void EncodeF16(const float* value, uint8_t* bytes) { StoreF16(*value, bytes); }
void EncodeBf16(const float* value, uint8_t* bytes) { StoreLittleEndian<uint16_t>(F32ToBf16(*value), bytes); }

constexpr int kNoField = -1;

// `first_f16` and `second_f16`: where a block keeps its f16 scale and minimum.
struct Format {
  void (*decode_block)(const uint8_t* block, float* out);
  void (*encode_block)(const float* values, uint8_t* block);
  int first_f16, second_f16;
};

Format FormatOf(DType dtype) {
  switch (dtype) {
    case DType::kF32: return {DecodeF32, EncodeF32, kNoField, kNoField};
    case DType::kF16: return {DecodeF16, EncodeF16, 0, kNoField};
    case DType::kQ4_0: return {DecodeQ4_0, EncodeQ4_0, 0, kNoField};
    case DType::kQ4_1: return {DecodeQ4_1, EncodeQ4_1, 0, 2};
    case DType::kQ5_0: return {DecodeQ5_0, EncodeQ5_0, 0, kNoField};
    case DType::kQ5_1: return {DecodeQ5_1, EncodeQ5_1, 0, 2};
    case DType::kQ8_0: return {DecodeQ8_0, EncodeQ8_0, 0, kNoField};
    case DType::kQ4_K: return {DecodeQ4_K, EncodeQ4_K, 0, 2};
    case DType::kQ5_K: return {DecodeQ5_K, EncodeQ5_K, 0, 2};
    case DType::kQ6_K: return {DecodeQ6_K, EncodeQ6_K, 208, kNoField};
    case DType::kBF16: return {DecodeBf16, EncodeBf16, kNoField, kNoField};
  }
  KVERN_CHECK(false);
}

// Whether no field of this width, `stride` bytes apart, has every bit of `exponent_mask` set.
template <typename T>
bool NoExponentIsFull(std::span<const uint8_t> bytes, size_t first, size_t stride, T exponent_mask) {
  uint32_t num_full = 0;
  for (size_t at = first; at + sizeof(T) <= bytes.size(); at += stride) {
    num_full += (LoadLittleEndian<T>(bytes.data() + at) & exponent_mask) == exponent_mask ? 1u : 0u;
  }
  return num_full == 0;
}

}  // namespace

void DecodeRow(DType dtype, std::span<const uint8_t> bytes, std::span<float> out) {
  const DTypeInfo& info = GetDTypeInfo(dtype);
  KVERN_DCHECK(bytes.size() == RowBytes(dtype, out.size()));
  const Format format = FormatOf(dtype);
  const size_t num_blocks = out.size() / info.block_elements;
  for (size_t b = 0; b < num_blocks; ++b) {
    format.decode_block(bytes.data() + b * info.block_bytes, out.data() + b * info.block_elements);
  }
}

void EncodeRow(DType dtype, std::span<const float> values, std::span<uint8_t> bytes) {
  const DTypeInfo& info = GetDTypeInfo(dtype);
  KVERN_DCHECK(bytes.size() == RowBytes(dtype, values.size()));
  const Format format = FormatOf(dtype);
  std::fill(bytes.begin(), bytes.end(), uint8_t{0});  // The K encoders put their codes in bit by bit.
  const size_t num_blocks = values.size() / info.block_elements;
  for (size_t b = 0; b < num_blocks; ++b) {
    format.encode_block(values.data() + b * info.block_elements, bytes.data() + b * info.block_bytes);
  }
}

bool ScalesAreFinite(DType dtype, std::span<const uint8_t> bytes) {
  const size_t stride = GetDTypeInfo(dtype).block_bytes;
  if (dtype == DType::kF32) return NoExponentIsFull<uint32_t>(bytes, 0, stride, 0x7f800000u);
  if (dtype == DType::kBF16) return NoExponentIsFull<uint16_t>(bytes, 0, stride, 0x7f80u);
  const Format format = FormatOf(dtype);
  for (const int field : {format.first_f16, format.second_f16}) {
    if (field == kNoField) continue;
    if (!NoExponentIsFull<uint16_t>(bytes, static_cast<size_t>(field), stride, 0x7c00u)) return false;
  }
  return true;
}

}  // namespace kvern
