// What the layout of the cache needs to know of a codec: how wide its codes are, how many of them share a lane, which
// of them share a scale. How codes are made and read stands in inl/codec_*.inl.h; names and descriptions in
// kvcache/codecs/codec_registry.cc.
//
// Codes of sixteen slots and one KV head are a granule. Its units are vectors of 16 lanes of codes_per_lane codes each:
//   K: [dim / codes][slot % 16][codes]                              a lane is a slot, its codes are successive dims
//   V: [slot % 16 / codes][dim / 16][dim % 16][codes]               a lane is a dim, its codes are successive slots
// A lane of int4 is four bytes with two codes in each:
//   K: byte i holds dim i of the unit's eight in its low half, dim 4 + i in its high half
//   V: units [slot % 16 / 4][dim / 32][dim % 16]; byte i is slot i of four, its low half the dim, its high half dim +
//   16
// So no byte ever holds codes of two slots: rows are stored by several threads at once.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

#include "kvern/options.h"

namespace kvern {

inline constexpr uint32_t kGranuleSlots = 16;

// Which rows are multiplied with a Hadamard matrix first, so that no dim of them is much larger than the others.
enum class KvRotation : uint8_t {
  kNone,
  kKeysIfPossible,  // Keys, whose error softmax enlarges, of heads that have such a matrix.
  kAll,             // Heads that have none cannot be stored so.
};

struct KvCodecShape {
  uint32_t bits;            // Of a code.
  uint32_t codes_per_lane;  // Of a unit.
  uint32_t scale_dims;      // Dims that share an f16 scale; 0: no scales; kAllDims: the whole head.
  KvRotation rotation = KvRotation::kNone;
};
inline constexpr uint32_t kAllDims = UINT32_MAX;

constexpr KvCodecShape ShapeOf(KvType type) {
  switch (type) {
    case KvType::kF32: return {32, 1, 0};
    case KvType::kF16: return {16, 1, 0};
    case KvType::kBF16: return {16, 2, 0};
    case KvType::kF8E4M3:
    case KvType::kF8E5M2: return {8, 2, kAllDims};
    case KvType::kI8: return {8, 4, kAllDims, KvRotation::kKeysIfPossible};
    case KvType::kI4: return {4, 8, 32, KvRotation::kAll};
    case KvType::kI4Head: return {4, 8, kAllDims, KvRotation::kAll};
  }
  return {32, 1, 0};
}

// Whether there is a Hadamard matrix for the head, of the kind that is a few additions.
constexpr bool HasRotation(uint32_t head_dim) { return head_dim >= 32 && std::has_single_bit(head_dim); }

constexpr bool RotatesKeys(KvType type, uint32_t head_dim) {
  return ShapeOf(type).rotation != KvRotation::kNone && HasRotation(head_dim);
}
constexpr bool RotatesValues(KvType type, uint32_t head_dim) {
  return ShapeOf(type).rotation == KvRotation::kAll && HasRotation(head_dim);
}

// Whether keys are stored less a fixed centre (KvView::key_centres): rounding to integers costs the more the further
// they are from 0.
constexpr bool CentresKeys(KvType type) { return ShapeOf(type).rotation != KvRotation::kNone; }

// Scales of one row of one head.
constexpr uint32_t NumKvScales(KvType type, uint32_t head_dim) {
  const uint32_t dims = ShapeOf(type).scale_dims;
  return dims == 0 ? 0 : dims == kAllDims ? 1 : head_dim / dims;
}

// Bytes of the codes of a granule: a multiple of 64.
constexpr size_t KvGranuleBytes(KvType type, uint32_t head_dim) {
  return size_t{kGranuleSlots} * head_dim * ShapeOf(type).bits / 8;
}

// Bytes of the scales of a granule: those of K, [group][slot % 16] f16, then those of V, rounded up to cache lines.
constexpr size_t KvGranuleScaleBytes(KvType k_type, KvType v_type, uint32_t head_dim) {
  const size_t num_scales = NumKvScales(k_type, head_dim) + size_t{NumKvScales(v_type, head_dim)};
  return (num_scales * kGranuleSlots * sizeof(uint16_t) + 63) / 64 * 64;
}

// Everything that sixteen tokens need in one KV head of one layer.
constexpr size_t KvHeadGranuleBytes(KvType k_type, KvType v_type, uint32_t head_dim) {
  return KvGranuleBytes(k_type, head_dim) + KvGranuleBytes(v_type, head_dim) +
         KvGranuleScaleBytes(k_type, v_type, head_dim);
}

}  // namespace kvern
