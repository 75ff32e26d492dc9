// fp8_e4m3 and fp8_e5m2: 8-bit floats with one f16 scale per row. See codec_rows.inl.h.
//   scale = f16(m / top), m = max |x|, top = 448 (e4m3) or 1024 (e5m2: keeps scales out of f16's subnormals)
//   code  = x * (1 / scale), to nearest even, at most the largest finite code
// A row that is not finite has the scale NaN and codes 0; one below 2^-100 has the scale 0 and codes 0.
#pragma once

template <bool kIsE4m3>
struct Fp8Codec {
  static constexpr KvType kType = kIsE4m3 ? KvType::kF8E4M3 : KvType::kF8E5M2;
  using Code = uint8_t;
  static constexpr uint32_t kCodesPerLane = 2;
  static constexpr bool kIsInteger = false;
  static constexpr float kScaleFactor = kIsE4m3 ? 256 : 1;  // DecodeLanes gives e4m3 times 2^-8.
  static constexpr uint32_t NumCodes(uint32_t dim) { return dim; }

  static constexpr int kMantissaBits = kIsE4m3 ? 3 : 2;
  static constexpr int kExponentBias = kIsE4m3 ? 7 : 15;
  static constexpr float kTop = kIsE4m3 ? 448 : 1024;
  static constexpr float kLargestFinite = kIsE4m3 ? 448 : 57344;
  static constexpr float kFirstTooLarge = kIsE4m3 ? 464 : 61440;  // In the middle to what would come next.

  // Codes of sixteen finite values.
  KVERN_INLINE static I32x16 Round(F32x16 x) {
    constexpr int kDropped = 23 - kMantissaBits;
    const I32x16 sign = ShiftLeft<7>(ShiftRight<31>(BitsOf(x)));
    const I32x16 bits = BitsOf(ClampTo(FloatFromBits(MagnitudeBits(x)), 0.0f, kLargestFinite));
    const I32x16 odd = And(ShiftRight<kDropped>(bits), Set1I32(1));
    const I32x16 rounded = ShiftRight<kDropped>(Add(Add(bits, Set1I32((1 << (kDropped - 1)) - 1)), odd));
    const I32x16 normal = Sub(rounded, Set1I32((127 - kExponentBias) << kMantissaBits));
    // Below the smallest normal code are multiples of 2^(1 - bias - mantissa bits).
    constexpr float kSubnormalsPerUnit = static_cast<float>(1u << (kExponentBias - 1 + kMantissaBits));
    const I32x16 subnormal = ToI32(Mul(FloatFromBits(bits), Set1(kSubnormalsPerUnit)));
    const I32x16 smallest_normal = Set1I32((127 - kExponentBias + 1) << 23);
    return Or(sign, Select(Greater(smallest_normal, bits), subnormal, normal));
  }

  template <bool kIsKey>
  static uint32_t Encode(const float* x, uint32_t dim, uint8_t* codes, uint16_t* scales) {
    const int32_t largest = LargestMagnitudeBits(x, dim);
    const float m = std::bit_cast<float>(largest);
    if (largest >= kInfinityBits || m < kSmallestMagnitude) {
      scales[0] = largest >= kInfinityBits ? kNanScale : 0;
      std::memset(codes, 0, dim);
      return largest >= kInfinityBits ? dim : 0;
    }
    scales[0] = ScaleOf(m, kTop, kFirstTooLarge);
    const float scale = F16ToF32(scales[0]);
    const F32x16 factor = Set1(1.0f / scale);
    for (uint32_t d = 0; d < dim; d += 16) {
      StoreLowBytes(reinterpret_cast<int8_t*>(codes + d), Round(Mul(Load(x + d), factor)));
    }
    return CountFrom(std::bit_cast<int32_t>(scale * kFirstTooLarge), x, dim);
  }
  template <bool kIsKey>
  static void DecodeRow(const uint8_t* codes, const float* scales, uint32_t dim, float* x) {
    const F32x16 scale = Set1(scales[0] * kScaleFactor);
    for (uint32_t d = 0; d < dim; d += 16) {
      uint8_t pairs[32] = {};
      for (uint32_t i = 0; i < 16; ++i) pairs[2 * i] = codes[d + i];
      Store(x + d, Mul(DecodeLanes(pairs, 0), scale));
    }
  }
  KVERN_INLINE static F32x16 DecodeLanes(const uint8_t* unit, int which) {
    if constexpr (kIsE4m3) {
      return LoadE4m3(unit, which);
    } else {
      return LoadE5m2(unit, which);
    }
  }
};
