// f16: to nearest even; what is 65520 or more becomes infinite and is counted. See codec_rows.inl.h.
#pragma once

struct F16Codec {
  static constexpr KvType kType = KvType::kF16;
  using Code = uint16_t;
  static constexpr uint32_t kCodesPerLane = 1;
  static constexpr bool kIsInteger = false;
  static constexpr float kScaleFactor = 0;
  static constexpr int32_t kFirstInfinite = 0x477ff000;  // 65520, as bits.
  static constexpr uint32_t NumCodes(uint32_t dim) { return dim; }

  template <bool kIsKey>
  static uint32_t Encode(const float* x, uint32_t dim, uint16_t* codes, uint16_t* /*scales*/) {
    for (uint32_t d = 0; d < dim; d += 16) StoreF16(codes + d, Load(x + d));
    return CountFrom(kFirstInfinite, x, dim);
  }
  template <bool kIsKey>
  static void DecodeRow(const uint16_t* codes, const float* /*scales*/, uint32_t dim, float* x) {
    for (uint32_t d = 0; d < dim; d += 16) Store(x + d, LoadF16(codes + d));
  }
  KVERN_INLINE static F32x16 DecodeLanes(const uint8_t* unit, int /*which*/) {
    return LoadF16(reinterpret_cast<const uint16_t*>(unit));
  }
};
