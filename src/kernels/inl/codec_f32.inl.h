// f32: rows as they are. Prefill decodes other codecs to granules of this one. See codec_rows.inl.h.
#pragma once

struct F32Codec {
  static constexpr KvType kType = KvType::kF32;
  using Code = float;
  static constexpr uint32_t kCodesPerLane = 1;
  static constexpr bool kIsInteger = false;
  static constexpr float kScaleFactor = 0;
  static constexpr uint32_t NumCodes(uint32_t dim) { return dim; }

  template <bool kIsKey>
  static uint32_t Encode(const float* x, uint32_t dim, float* codes, uint16_t* /*scales*/) {
    std::memcpy(codes, x, dim * sizeof(float));
    return CountFrom(kInfinityBits, x, dim);
  }
  template <bool kIsKey>
  static void DecodeRow(const float* codes, const float* /*scales*/, uint32_t dim, float* x) {
    std::memcpy(x, codes, dim * sizeof(float));
  }
  KVERN_INLINE static F32x16 DecodeLanes(const uint8_t* unit, int /*which*/) {
    return Load(reinterpret_cast<const float*>(unit));
  }
};
