// bf16: the upper half of an f32, to nearest even. See codec_rows.inl.h.
#pragma once

struct Bf16Codec {
  static constexpr KvType kType = KvType::kBF16;
  using Code = uint16_t;
  static constexpr uint32_t kCodesPerLane = 2;
  static constexpr bool kIsInteger = false;
  static constexpr float kScaleFactor = 0;
  static constexpr int32_t kFirstInfinite = 0x7f7f8000;  // As bits.
  static constexpr uint32_t NumCodes(uint32_t dim) { return dim; }

  template <bool kIsKey>
  static uint32_t Encode(const float* x, uint32_t dim, uint16_t* codes, uint16_t* /*scales*/) {
    for (uint32_t d = 0; d < dim; d += 16) {
      const F32x16 value = Load(x + d);
      const I32x16 bits = BitsOf(value), upper = ShiftRight<16>(bits);
      const I32x16 rounded = ShiftRight<16>(Add(Add(bits, Set1I32(0x7fff)), And(upper, Set1I32(1))));
      const Mask16 is_nan = Greater(MagnitudeBits(value), Set1I32(kInfinityBits));
      int32_t lanes[16];
      Store(lanes, Select(is_nan, Or(upper, Set1I32(0x40)), rounded));
      for (uint32_t i = 0; i < 16; ++i) codes[d + i] = static_cast<uint16_t>(lanes[i]);
    }
    return CountFrom(kFirstInfinite, x, dim);
  }
  template <bool kIsKey>
  static void DecodeRow(const uint16_t* codes, const float* /*scales*/, uint32_t dim, float* x) {
    for (uint32_t d = 0; d < dim; d += 16) Store(x + d, LoadBf16(codes + d));
  }
  KVERN_INLINE static F32x16 DecodeLanes(const uint8_t* unit, int which) {
    return LoadBf16Of(reinterpret_cast<const uint16_t*>(unit), which);
  }
};
