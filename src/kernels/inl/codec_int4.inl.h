// int4 (an f16 scale for each 32 values) and int4_head (one for the whole row): rows are rotated by a Hadamard matrix,
// so that no dim is much larger than the others, then rounded to -8 .. 7. See codec_rows.inl.h.
// Per group of values x, all of them rotated:
//   s = max(max x / 7, max -x / 8);  t = x * (1 / s)
//   for each u of 30/32, 31/32 .. 45/32: q = integer(t * u), -8 to 7; a = sum t q, b = sum q^2
//   scale = f16(s * (a / b)) of the u whose a^2 / b is largest: least squares, over u as well; the first among equals
//   code = integer(x * (1 / scale)) + 8, 0 to 15
// The scale is never negative: t and q have the same sign. A group that is not finite has the scale NaN, one below
// 2^-100 the scale 0; their codes are 8.
#pragma once

template <bool kIsPerHead>
struct Int4Codec {
  static constexpr KvType kType = kIsPerHead ? KvType::kI4Head : KvType::kI4;
  using Code = uint8_t;  // Two of them.
  static constexpr uint32_t kCodesPerLane = 4;
  static constexpr bool kIsInteger = true;
  static constexpr int kBits = 4;
  // int4_head is the fast one: 8 bits of a query halve the products of K, and its keys are coarser than that.
  static constexpr KvFactor kQuery = kIsPerHead ? KvFactor::kQuery8 : KvFactor::kQuery15;
  static constexpr uint32_t kMaxDims = 1024;
  static constexpr uint32_t NumCodes(uint32_t dim) { return dim / 2; }
  static constexpr uint32_t GroupDims(uint32_t dim) { return kIsPerHead ? dim : 32; }

  // The scale of a group of finite values whose s is given, as a multiple of s. Lanes are the u.
  static float Refit(const float* x, uint32_t n, float s) {
    alignas(64) static constexpr float kDivisors[16] = {
        30 / 32.0f, 31 / 32.0f, 32 / 32.0f, 33 / 32.0f, 34 / 32.0f, 35 / 32.0f, 36 / 32.0f, 37 / 32.0f,
        38 / 32.0f, 39 / 32.0f, 40 / 32.0f, 41 / 32.0f, 42 / 32.0f, 43 / 32.0f, 44 / 32.0f, 45 / 32.0f};
    const F32x16 divisors = Load(kDivisors);
    F32x16 product = Zero(), square = Zero();
    for (uint32_t i = 0; i < n; ++i) {
      const F32x16 t = Set1(x[i] * (1.0f / s));
      const F32x16 q = ToF32(ToI32(ClampTo(Mul(t, divisors), -8.0f, 7.0f)));
      product = Fma(t, q, product);
      square = Fma(q, q, square);
    }
    alignas(64) float products[16], squares[16];
    Store(products, product);
    Store(squares, square);
    int best = 0;
    float largest = 0;
    for (int i = 0; i < 16; ++i) {
      const float gain = products[i] * products[i] / squares[i];
      if (gain > largest) {
        largest = gain;
        best = i;
      }
    }
    return products[best] / squares[best];
  }

  // Codes 0 to 15 of one group of rotated values; returns its scale.
  static uint16_t EncodeGroup(const float* x, uint32_t n, uint8_t* codes, uint32_t* num_lost) {
    const int32_t largest = LargestMagnitudeBits(x, n);
    if (largest >= kInfinityBits || std::bit_cast<float>(largest) < kSmallestMagnitude) {
      std::memset(codes, 8, n);
      *num_lost += largest >= kInfinityBits ? n : 0;
      return largest >= kInfinityBits ? kNanScale : 0;
    }
    F32x16 above = Zero(), below = Zero();
    for (uint32_t i = 0; i < n; i += 16) {
      above = Max(above, Load(x + i));
      below = Max(below, Sub(Zero(), Load(x + i)));
    }
    const float a = HorizontalMax(above) * (1.0f / 7), b = HorizontalMax(below) * 0.125f;
    const float s = a > b ? a : b;
    const uint16_t scale = std::min(F32ToF16(s * Refit(x, n, s)), kLargestScale);
    if (scale == 0) {
      std::memset(codes, 8, n);
      return 0;
    }
    const F32x16 factor = Set1(1.0f / F16ToF32(scale));
    for (uint32_t i = 0; i < n; i += 16) {
      const I32x16 code = Add(ToI32(ClampTo(Mul(Load(x + i), factor), -8.0f, 7.0f)), Set1I32(8));
      StoreLowBytes(reinterpret_cast<int8_t*>(codes + i), code);
    }
    if (scale == kLargestScale) *num_lost += CountFrom(std::bit_cast<int32_t>(F16ToF32(scale) * 8.5f), x, n);
    return scale;
  }

  template <bool kIsKey>
  static uint32_t Encode(const float* x, uint32_t dim, uint8_t* codes, uint16_t* scales) {
    float rotated[kMaxDims];
    uint8_t single[kMaxDims];
    std::memcpy(rotated, x, dim * sizeof(float));
    RotateRow(rotated, dim);
    uint32_t num_lost = 0;
    const uint32_t group_dims = GroupDims(dim);
    for (uint32_t begin = 0; begin < dim; begin += group_dims) {
      scales[begin / group_dims] = EncodeGroup(rotated + begin, group_dims, single + begin, &num_lost);
    }
    for (uint32_t i = 0; i < dim / 2; ++i) {
      const uint32_t low = LowDim<kIsKey>(i);
      codes[i] = static_cast<uint8_t>(single[low] | single[low + kHighDims<kIsKey>] << 4);
    }
    return num_lost;
  }
  template <bool kIsKey>
  static void DecodeRow(const uint8_t* codes, const float* scales, uint32_t dim, float* x) {
    uint8_t single[kMaxDims];
    for (uint32_t i = 0; i < dim / 2; ++i) {
      const uint32_t low = LowDim<kIsKey>(i);
      single[low] = codes[i] & 15;
      single[low + kHighDims<kIsKey>] = codes[i] >> 4;
    }
    for (uint32_t d = 0; d < dim; d += 16) {
      const F32x16 code = ToF32(Sub(LoadU8(single + d), Set1I32(8)));
      Store(x + d, Mul(code, Set1(scales[d / GroupDims(dim)])));
    }
    RotateRowBack(x, dim);
  }

  // The dim in the low half of byte i of a row; that in the high half is so many dims further (kv_codec.h).
  template <bool kIsKey>
  static constexpr uint32_t kHighDims = kIsKey ? 4 : 16;
  template <bool kIsKey>
  static constexpr uint32_t LowDim(uint32_t i) {
    return i / kHighDims<kIsKey> * (2 * kHighDims<kIsKey>)+i % kHighDims<kIsKey>;
  }
};
