// Where a product tile gets its weights from, block by block of 32 inputs. Included inside a target's namespace.
// A source has: kPanels, kBits, kHasMin, kSubs; Codes(panel, k-group), Scales(panel, sub-block), Next().
#pragma once

// An int32 sum that starts here is, with its bits read as a float, 1.5 * 2^23 + dot: exact while |dot| < 2^22.
inline constexpr int32_t kMagicBits = 0x4B400000;
inline constexpr float kMagic = 12582912.0f;

// Scales of a sub-block for 16 outputs. d and d * kMagic are exact: d has at most 18 significant bits.
struct BlockScales {
  F32x16 d;
  F32x16 minus_d_magic;
  F32x16 min;  // What sx is multiplied with; formats with minima only.
};

// The codes of k-group kGroup in the block at `block`, one byte each.
template <int kBits, int kGroup>
KVERN_INLINE Bytes64 UnpackGroup(const uint8_t* block) {
  if constexpr (kBits == 8) {
    return LoadBytes(block + kGroup * 64);
  } else {
    const Bytes64 nibbles = LoadBytes(block + kGroup % 4 * 64);
    const Bytes64 low = Field<kGroup / 4 * 4, 4, 0>(nibbles);
    if constexpr (kBits == 4) return low;
    if constexpr (kBits == 5) return Or(low, Field<kGroup, 1, 4>(LoadBytes(block + 256)));
    if constexpr (kBits == 6) {
      return Or(low, Field<kGroup % 4 * 2, 2, 4>(LoadBytes(block + 256 + kGroup / 4 * 64)));
    }
  }
}

// The scales of sub-block kSub of the block number `block` in its record.
template <DType kType>
KVERN_INLINE BlockScales LoadScales(const uint8_t* record, uint32_t block, uint32_t sub) {
  constexpr IntFormat kFormat = IntFormatOf(kType);
  BlockScales scales;
  scales.d = LoadF16(reinterpret_cast<const uint16_t*>(record));
  scales.min = Zero();
  if constexpr (kFormat.is_two_level && !kFormat.has_min) {
    const uint8_t* sub_scales = record + kSubScaleOffsetWithoutMins + (block * kFormat.subs_per_block + sub) * 16;
    scales.d = Mul(scales.d, ToF32(LoadI8(reinterpret_cast<const int8_t*>(sub_scales))));
  } else if constexpr (kFormat.is_two_level) {
    const I32x16 low = LoadU8(record + kSubScaleOffsetWithMins + block * 16);
    I32x16 high = LoadU8(record + kSubScaleOffsetWithMins + 128 + block / 2 * 16);
    if (block % 2 != 0) high = ShiftRight<4>(high);
    const I32x16 scale = Or(And(low, Set1I32(15)), And(ShiftLeft<4>(high), Set1I32(48)));
    const I32x16 min = Or(ShiftRight<4>(low), And(ShiftLeft<2>(high), Set1I32(48)));
    const F32x16 dmin = LoadF16(reinterpret_cast<const uint16_t*>(record + 32));
    scales.d = Mul(scales.d, ToF32(scale));
    scales.min = FloatFromBits(Xor(BitsOf(Mul(dmin, ToF32(min))), Set1I32(INT32_MIN)));
  } else if constexpr (kFormat.has_min) {
    scales.min = LoadF16(reinterpret_cast<const uint16_t*>(record + 32));
  }
  scales.minus_d_magic = Mul(scales.d, Set1(-kMagic));
  return scales;
}

// Walks the blocks of a packed panel.
template <DType kType>
struct BlockCursor {
  static constexpr IntFormat kFormat = IntFormatOf(kType);
  const uint8_t* record;
  uint32_t block;

  static KVERN_INLINE BlockCursor At(const uint8_t* panel, uint32_t block_index) {
    return {panel + static_cast<size_t>(block_index / kFormat.blocks_per_record) * kFormat.record_bytes(),
            block_index % kFormat.blocks_per_record};
  }
  KVERN_INLINE const uint8_t* codes() const { return record + kFormat.header_bytes() + block * kFormat.block_bytes(); }
  KVERN_INLINE void Next() {
    if (++block == kFormat.blocks_per_record) {
      block = 0;
      record += kFormat.record_bytes();
    }
  }
};

// Straight from a packed panel.
template <DType kType>
struct PanelSource {
  static constexpr IntFormat kFormat = IntFormatOf(kType);
  static constexpr int kPanels = 1;
  static constexpr int kBits = kFormat.bits;
  static constexpr bool kHasMin = kFormat.has_min;
  static constexpr int kSubs = kFormat.subs_per_block;

  BlockCursor<kType> cursor;

  template <int kGroup>
  KVERN_INLINE DotCodes<kBits> Codes(int /*panel*/) const {
    return PrepareCodes<kBits>(UnpackGroup<kBits, kGroup>(cursor.codes()));
  }
  KVERN_INLINE BlockScales Scales(int /*panel*/, int sub) const {
    return LoadScales<kType>(cursor.record, cursor.block, static_cast<uint32_t>(sub));
  }
  KVERN_INLINE void Next() { cursor.Next(); }
};

// From scratch that UnpackChunk has filled: codes [block][k-group][panel][64], scales [block][sub][panel][d, -d *
// magic, min (formats with minima)][16].
template <int kBitsOfSums, bool kWithMin, int kSubsPerBlock, int kPanelsOfTile>
struct UnpackedSource {
  static constexpr int kPanels = kPanelsOfTile;
  static constexpr int kBits = kBitsOfSums;
  static constexpr bool kHasMin = kWithMin;
  static constexpr int kSubs = kSubsPerBlock;
  static constexpr int kFloatsPerScale = 16 * (kHasMin ? 3 : 2);

  const uint8_t* codes;
  const float* scales;

  template <int kGroup>
  KVERN_INLINE DotCodes<kBits> Codes(int panel) const {
    return PrepareCodes<kBits>(LoadBytes(codes + (kGroup * kPanels + panel) * 64));
  }
  KVERN_INLINE BlockScales Scales(int panel, int sub) const {
    const float* p = scales + (sub * kPanels + panel) * kFloatsPerScale;
    return {Load(p), Load(p + 16), kHasMin ? Load(p + 32) : Zero()};
  }
  KVERN_INLINE void Next() {
    codes += 8 * kPanels * 64;
    scales += kSubs * kPanels * kFloatsPerScale;
  }
};

template <int kBits, int kGroup, int kPanels>
KVERN_INLINE void UnpackGroups(const uint8_t* block, uint8_t* out) {
  StoreBytes(out + kGroup * kPanels * 64, UnpackGroup<kBits, kGroup>(block));
  if constexpr (kGroup + 1 < 8) UnpackGroups<kBits, kGroup + 1, kPanels>(block, out);
}

// Fills the scratch of an UnpackedSource from the panels at `panels`, panel_bytes apart.
template <DType kType, int kPanels>
KVERN_NOINLINE void UnpackChunk(const uint8_t* panels, size_t panel_bytes, uint32_t first_block, uint32_t num_blocks,
                                uint8_t* codes, float* scales) {
  constexpr IntFormat kFormat = IntFormatOf(kType);
  constexpr int kFloats = 16 * (kFormat.has_min ? 3 : 2);
  for (int panel = 0; panel < kPanels; ++panel) {
    auto cursor = BlockCursor<kType>::At(panels + static_cast<size_t>(panel) * panel_bytes, first_block);
    uint8_t* c = codes + panel * 64;
    float* s = scales + panel * kFloats;
    for (uint32_t b = 0; b < num_blocks; ++b, c += 8 * kPanels * 64, cursor.Next()) {
      UnpackGroups<kFormat.bits, 0, kPanels>(cursor.codes(), c);
      for (int sub = 0; sub < kFormat.subs_per_block; ++sub, s += kPanels * kFloats) {
        const BlockScales block = LoadScales<kType>(cursor.record, cursor.block, static_cast<uint32_t>(sub));
        Store(s, block.d);
        Store(s + 16, block.minus_d_magic);
        if constexpr (kFormat.has_min) Store(s + 32, block.min);
      }
    }
  }
}
