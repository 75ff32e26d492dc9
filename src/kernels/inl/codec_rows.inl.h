// What codecs of K and V rows have in common: magnitudes, scales, the rotation, and where a row's codes stand in a
// granule (kv_codec.h). Included inside a target's namespace after its simd header.
//
// A codec is a struct in a file of its own, codec_NAME.inl.h, and a line in codecs.inl.h:
//   Code                    what is placed: codes of 8, 16 or 32 bits, or bytes of two 4-bit codes
//   kCodesPerLane           how many of those share a lane of a unit
//   kType                   which KvType it is
//   Encode<kIsKey>          a row to NumCodes(dim) codes and its scales; returns how many values it could not hold
//   DecodeRow<kIsKey>       back to f32
// and what attention does with it: either DecodeLanes, a lane vector of each unit as f32 without its scale, and
// kScaleFactor, which scales are multiplied with; or kBits of integer codes and kQuery, the form of queries that they
// are multiplied with (attention_integers.inl.h).
#pragma once

inline constexpr int32_t kInfinityBits = 0x7f800000;
inline constexpr int32_t kMagnitudeBits = 0x7fffffff;
inline constexpr uint32_t kMaxRowDims = 1u << 14;
inline constexpr uint32_t kMaxRowScales = 32;  // Codecs with a scale per 32 values stop at 1024 (codec_registry.cc).
inline constexpr uint16_t kNanScale = 0x7e00;
inline constexpr uint16_t kLargestScale = 0x7bff;
// Rows that are smaller are zeros, as activations are (docs/numerics.md).
inline constexpr float kSmallestMagnitude = 0x1p-100f;

KVERN_INLINE I32x16 MagnitudeBits(F32x16 x) { return And(BitsOf(x), Set1I32(kMagnitudeBits)); }

// The largest magnitude of a row as bits: those of infinity and NaN are above all others.
KVERN_INLINE int32_t LargestMagnitudeBits(const float* x, uint32_t n) {
  I32x16 largest = Set1I32(0);
  for (uint32_t i = 0; i < n; i += 16) largest = Max(largest, MagnitudeBits(Load(x + i)));
  return HorizontalMax(largest);
}

// How many values have a magnitude of at least `limit` (as bits), NaN among them.
KVERN_INLINE uint32_t CountFrom(int32_t limit, const float* x, uint32_t n) {
  if (LargestMagnitudeBits(x, n) < limit) return 0;
  uint32_t count = 0;
  for (uint32_t i = 0; i < n; i += 16) {
    const uint32_t bits = MaskBits(Greater(MagnitudeBits(Load(x + i)), Set1I32(limit - 1)));
    count += static_cast<uint32_t>(std::popcount(bits));
  }
  return count;
}

KVERN_INLINE F32x16 ClampTo(F32x16 x, float lowest, float largest) {
  const F32x16 below = Select(Greater(x, Set1(largest)), Set1(largest), x);
  return Max(below, Set1(lowest));
}

// The f16 scale that makes `largest` of m > 0, or the next one where m / scale would reach `limit` and so the code
// behind the largest.
inline uint16_t ScaleOf(float m, float largest, float limit) {
  uint16_t scale = F32ToF16(m / largest);
  if (F16ToF32(scale) * limit <= m) ++scale;
  return std::min(scale, kLargestScale);
}

// Multiplies a row of a power of two of at least 32 values with the Hadamard matrix: sums and differences at distances
// 1, 2, 4, ... in this order, then with 2^-shift, which rounds nothing.
KVERN_NOINLINE void HadamardRow(float* x, uint32_t n, uint32_t shift) {
  for (uint32_t i = 0; i < n; i += 16) {
    Store(x + i, Butterfly<8>(Butterfly<4>(Butterfly<2>(Butterfly<1>(Load(x + i))))));
  }
  for (uint32_t distance = 16; distance < n; distance *= 2) {
    for (uint32_t begin = 0; begin < n; begin += 2 * distance) {
      for (uint32_t i = begin; i < begin + distance; i += 16) {
        const F32x16 a = Load(x + i), b = Load(x + i + distance);
        Store(x + i, Add(a, b));
        Store(x + i + distance, Sub(a, b));
      }
    }
  }
  const F32x16 factor = Set1(1.0f / static_cast<float>(1u << shift));
  for (uint32_t i = 0; i < n; i += 16) Store(x + i, Mul(Load(x + i), factor));
}
// A rotation and one back multiply with n in all: the first has the smaller half of its power of two. Rows are stored
// by the first; queries meet rotated keys by the second, so that products are those of the rows.
inline void RotateRow(float* x, uint32_t n) { HadamardRow(x, n, static_cast<uint32_t>(std::countr_zero(n)) / 2); }
inline void RotateRowBack(float* x, uint32_t n) {
  const auto log2 = static_cast<uint32_t>(std::countr_zero(n));
  HadamardRow(x, n, log2 - log2 / 2);
}

// ---- Where codes stand: K of a slot in lane slot % 16 of every unit, V of a slot at place slot % U of every lane.

template <class Code, uint32_t kCodesPerLane>
void PlaceKeyCodes(const Code* codes, uint32_t n, uint8_t* granule, uint32_t lane) {
  Code* to = reinterpret_cast<Code*>(granule) + lane * kCodesPerLane;
  for (uint32_t i = 0; i < n; i += kCodesPerLane, to += 16 * kCodesPerLane) {
    for (uint32_t j = 0; j < kCodesPerLane; ++j) to[j] = codes[i + j];
  }
}
template <class Code, uint32_t kCodesPerLane>
void TakeKeyCodes(const uint8_t* granule, uint32_t lane, uint32_t n, Code* codes) {
  const Code* from = reinterpret_cast<const Code*>(granule) + lane * kCodesPerLane;
  for (uint32_t i = 0; i < n; i += kCodesPerLane, from += 16 * kCodesPerLane) {
    for (uint32_t j = 0; j < kCodesPerLane; ++j) codes[i + j] = from[j];
  }
}
template <class Code, uint32_t kCodesPerLane>
void PlaceValueCodes(const Code* codes, uint32_t n, uint8_t* granule, uint32_t lane) {
  Code* const to = reinterpret_cast<Code*>(granule) + lane / kCodesPerLane * kCodesPerLane * size_t{n};
  for (uint32_t i = 0; i < n; ++i) to[i * kCodesPerLane + lane % kCodesPerLane] = codes[i];
}
template <class Code, uint32_t kCodesPerLane>
void TakeValueCodes(const uint8_t* granule, uint32_t lane, uint32_t n, Code* codes) {
  const Code* const from = reinterpret_cast<const Code*>(granule) + lane / kCodesPerLane * kCodesPerLane * size_t{n};
  for (uint32_t i = 0; i < n; ++i) codes[i] = from[i * kCodesPerLane + lane % kCodesPerLane];
}

// ---- A row into its slot and back. `scales`: those of the granule, [group][16].

template <class Codec, bool kIsKey>
uint32_t StoreRow(const float* x, uint32_t dim, uint8_t* granule, uint8_t* scales, uint32_t lane) {
  typename Codec::Code codes[kMaxRowDims];
  uint16_t row_scales[kMaxRowScales] = {};
  codes[0] = {};  // g++ does not see that Encode fills all that is read.
  const uint32_t num_lost = Codec::template Encode<kIsKey>(x, dim, codes, row_scales);
  if constexpr (kIsKey) {
    PlaceKeyCodes<typename Codec::Code, Codec::kCodesPerLane>(codes, Codec::NumCodes(dim), granule, lane);
  } else {
    PlaceValueCodes<typename Codec::Code, Codec::kCodesPerLane>(codes, Codec::NumCodes(dim), granule, lane);
  }
  for (uint32_t group = 0; group < NumKvScales(Codec::kType, dim); ++group) {
    std::memcpy(scales + (group * 16 + lane) * sizeof(uint16_t), &row_scales[group], sizeof(uint16_t));
  }
  return num_lost;
}

template <class Codec, bool kIsKey>
void LoadRow(const uint8_t* granule, const uint8_t* scales, uint32_t lane, uint32_t dim, float* x) {
  typename Codec::Code codes[kMaxRowDims];
  float row_scales[kMaxRowScales] = {};
  if constexpr (kIsKey) {
    TakeKeyCodes<typename Codec::Code, Codec::kCodesPerLane>(granule, lane, Codec::NumCodes(dim), codes);
  } else {
    TakeValueCodes<typename Codec::Code, Codec::kCodesPerLane>(granule, lane, Codec::NumCodes(dim), codes);
  }
  for (uint32_t group = 0; group < NumKvScales(Codec::kType, dim); ++group) {
    uint16_t scale;
    std::memcpy(&scale, scales + (group * 16 + lane) * sizeof(uint16_t), sizeof(uint16_t));
    row_scales[group] = F16ToF32(scale);
    if (!kIsKey) row_scales[group] = std::fabs(row_scales[group]);  // As attention takes them.
  }
  Codec::template DecodeRow<kIsKey>(codes, row_scales, dim, x);
}
