// int8: symmetric, one f16 scale per row. Keys are rotated first where the head has a rotation: their error goes
// through softmax, and a row that one dim dominates would spend its codes on that dim. See codec_rows.inl.h.
//   scale = f16(m / 127), m = max |x|;   code = integer(x * (1 / scale)), -127 to 127
// A row that is not finite has the scale NaN and codes 0; one below 2^-100 has the scale 0 and codes 0.
#pragma once

struct Int8Codec {
  static constexpr KvType kType = KvType::kI8;
  using Code = int8_t;
  static constexpr uint32_t kCodesPerLane = 4;
  static constexpr bool kIsInteger = true;
  static constexpr int kBits = 8;
  static constexpr KvFactor kQuery = KvFactor::kQuery15;
  static constexpr uint32_t kMaxDims = 1024;
  static constexpr uint32_t NumCodes(uint32_t dim) { return dim; }

  template <bool kIsKey>
  static uint32_t Encode(const float* x, uint32_t dim, int8_t* codes, uint16_t* scales) {
    float rotated[kMaxDims];
    if (kIsKey && RotatesKeys(kType, dim)) {
      std::memcpy(rotated, x, dim * sizeof(float));
      RotateRow(rotated, dim);
      x = rotated;
    }
    const int32_t largest = LargestMagnitudeBits(x, dim);
    const float m = std::bit_cast<float>(largest);
    if (largest >= kInfinityBits || m < kSmallestMagnitude) {
      scales[0] = largest >= kInfinityBits ? kNanScale : 0;
      std::memset(codes, 0, dim);
      return largest >= kInfinityBits ? dim : 0;
    }
    scales[0] = ScaleOf(m, 127.0f, 127.5f);
    const float scale = F16ToF32(scales[0]);
    const F32x16 factor = Set1(1.0f / scale);
    for (uint32_t d = 0; d < dim; d += 16) {
      StoreLowBytes(codes + d, ToI32(ClampTo(Mul(Load(x + d), factor), -127.0f, 127.0f)));
    }
    return CountFrom(std::bit_cast<int32_t>(scale * 127.5f), x, dim);
  }
  template <bool kIsKey>
  static void DecodeRow(const int8_t* codes, const float* scales, uint32_t dim, float* x) {
    const F32x16 scale = Set1(scales[0]);
    for (uint32_t d = 0; d < dim; d += 16) Store(x + d, Mul(ToF32(LoadI8(codes + d)), scale));
    if (kIsKey && RotatesKeys(kType, dim)) RotateRowBack(x, dim);
  }
};
