// Products of float weights, or of integer weights decoded exactly, with f32 activations. Included inside a target's
// namespace. Every output is one chain: acc = +0; acc = fma(w, x, acc) for the inputs in order.
#pragma once

struct alignas(64) F32Scratch {
  float weights[kF32ChunkInputs * 16];  // A chunk of an integer panel, decoded.
  float partials[kMaxPassRows * 16];    // [row][16]: chains between two chunks.
};

size_t MatmulScratchBytes() { return std::max(sizeof(Int8Scratch), sizeof(F32Scratch)); }

// [input][16] elements of a panel, as they lie in a packed matrix of floats or in scratch.
template <DType kType>
KVERN_INLINE F32x16 LoadWeights(const uint8_t* panel, size_t k) {
  if constexpr (kType == DType::kF32) return Load(reinterpret_cast<const float*>(panel) + k * 16);
  if constexpr (kType == DType::kF16) return LoadF16(reinterpret_cast<const uint16_t*>(panel) + k * 16);
  if constexpr (kType == DType::kBF16) return LoadBf16(reinterpret_cast<const uint16_t*>(panel) + k * 16);
}

struct F32TileArgs {
  const uint8_t* weights;
  size_t panel_bytes;  // From a panel to the next, for tiles of several panels.
  uint32_t num_inputs;
  const float* x;     // [num_inputs][rows]
  const float* from;  // Chains so far; null at the first chunk.
  size_t from_stride;
  float* to;
  size_t to_stride;
  bool adds;
};

template <DType kType, int kRows, int kPanels>
KVERN_NOINLINE void F32Tile(const F32TileArgs& a) {
  F32x16 chains[kRows][kPanels];
  KVERN_UNROLL
  for (int r = 0; r < kRows; ++r) {
    KVERN_UNROLL
    for (int p = 0; p < kPanels; ++p) {
      chains[r][p] = a.from == nullptr ? Zero() : Load(a.from + static_cast<size_t>(r) * a.from_stride + p * 16);
    }
  }
  // Several panels stream from memory at once, more than the hardware follows by itself.
  constexpr size_t kWeightBytes = kType == DType::kF32 ? 64 : 32;
  constexpr size_t kAheadBytes = 2048;
  const float* x = a.x;
  for (size_t k = 0; k < a.num_inputs; ++k, x += kRows) {
    if (kPanels > 1 && k * kWeightBytes % 64 == 0) {
      KVERN_UNROLL
      for (int p = 0; p < kPanels; ++p) {
        Prefetch(a.weights + static_cast<size_t>(p) * a.panel_bytes + k * kWeightBytes + kAheadBytes);
      }
    }
    F32x16 w[kPanels];
    KVERN_UNROLL
    for (int p = 0; p < kPanels; ++p) w[p] = LoadWeights<kType>(a.weights + static_cast<size_t>(p) * a.panel_bytes, k);
    KVERN_UNROLL
    for (int r = 0; r < kRows; ++r) {
      const F32x16 xr = Set1(x[r]);
      KVERN_UNROLL
      for (int p = 0; p < kPanels; ++p) chains[r][p] = Fma(w[p], xr, chains[r][p]);
    }
  }
  KVERN_UNROLL
  for (int r = 0; r < kRows; ++r) {
    float* to = a.to + static_cast<size_t>(r) * a.to_stride;
    KVERN_UNROLL
    for (int p = 0; p < kPanels; ++p) {
      Store(to + p * 16, a.adds ? Add(Load(to + p * 16), chains[r][p]) : chains[r][p]);
    }
  }
}

template <DType kType, uint32_t kMaxRows>
KVERN_INLINE void RunF32Tile(uint32_t rows, const F32TileArgs& a) {
  if constexpr (kMaxRows > 1) {
    if (rows < kMaxRows) return RunF32Tile<kType, kMaxRows - 1>(rows, a);
  }
  F32Tile<kType, static_cast<int>(kMaxRows), 1>(a);
}

// Input kByte of a k-group whose codes are `codes`, decoded: the arithmetic of tensor/quant_formats.h.
template <DType kType, int kByte>
KVERN_INLINE F32x16 DecodeInput(const Bytes64& codes, const BlockScales& scales) {
  constexpr IntFormat kFormat = IntFormatOf(kType);
  const I32x16 code = ByteOfLanes<kByte>(codes);
  if constexpr (kFormat.has_min) {
    return Add(Mul(scales.d, ToF32(code)), scales.min);
  } else {
    return Mul(scales.d, ToF32(Sub(code, Set1I32(kFormat.zero_code))));
  }
}

// The scales of a block's two halves; the same twice for formats with one scale for both.
template <DType kType>
struct HalfScales {
  BlockScales halves[2];

  HalfScales() = default;
  KVERN_INLINE explicit HalfScales(const BlockCursor<kType>& cursor) {
    halves[0] = LoadScales<kType>(cursor.record, cursor.block, 0);
    halves[1] = IntFormatOf(kType).subs_per_block == 1 ? halves[0] : LoadScales<kType>(cursor.record, cursor.block, 1);
  }
  template <int kGroup>
  KVERN_INLINE const BlockScales& Of() const {
    return halves[kGroup / 4];
  }
};

template <DType kType, int kGroup>
KVERN_INLINE void DecodeGroups(const uint8_t* block, const HalfScales<kType>& scales, float* out) {
  const Bytes64 codes = UnpackGroup<IntFormatOf(kType).bits, kGroup>(block);
  const BlockScales& group_scales = scales.template Of<kGroup>();
  float* group_out = out + kGroup * 4 * 16;
  Store(group_out, DecodeInput<kType, 0>(codes, group_scales));
  Store(group_out + 16, DecodeInput<kType, 1>(codes, group_scales));
  Store(group_out + 32, DecodeInput<kType, 2>(codes, group_scales));
  Store(group_out + 48, DecodeInput<kType, 3>(codes, group_scales));
  if constexpr (kGroup + 1 < 8) DecodeGroups<kType, kGroup + 1>(block, scales, out);
}

template <DType kType>
KVERN_NOINLINE void DecodeChunk(const uint8_t* panel, uint32_t first_block, uint32_t num_blocks, float* out) {
  auto cursor = BlockCursor<kType>::At(panel, first_block);
  for (uint32_t b = 0; b < num_blocks; ++b, out += 32 * 16, cursor.Next()) {
    DecodeGroups<kType, 0>(cursor.codes(), HalfScales<kType>(cursor), out);
  }
}

// One row times kPanels panels of integer weights, decoded in registers. Their chains are independent, so that the
// multipliers do not wait for one of them.
inline constexpr int kOneRowPanels = kManyRegisters ? 4 : 2;

template <DType kType, int kGroup>
KVERN_INLINE void AddDecodedGroups(const uint8_t* const (&blocks)[kOneRowPanels],
                                   const HalfScales<kType> (&scales)[kOneRowPanels], const float* x,
                                   F32x16 (&chains)[kOneRowPanels]) {
  constexpr int kBits = IntFormatOf(kType).bits;
  const float* xs = x + kGroup * 4;
  const F32x16 x0 = Set1(xs[0]), x1 = Set1(xs[1]), x2 = Set1(xs[2]), x3 = Set1(xs[3]);
  KVERN_UNROLL
  for (int p = 0; p < kOneRowPanels; ++p) {
    const Bytes64 codes = UnpackGroup<kBits, kGroup>(blocks[p]);
    const BlockScales& group_scales = scales[p].template Of<kGroup>();
    chains[p] = Fma(DecodeInput<kType, 0>(codes, group_scales), x0, chains[p]);
    chains[p] = Fma(DecodeInput<kType, 1>(codes, group_scales), x1, chains[p]);
    chains[p] = Fma(DecodeInput<kType, 2>(codes, group_scales), x2, chains[p]);
    chains[p] = Fma(DecodeInput<kType, 3>(codes, group_scales), x3, chains[p]);
  }
  if constexpr (kGroup + 1 < 8) AddDecodedGroups<kType, kGroup + 1>(blocks, scales, x, chains);
}

template <DType kType>
KVERN_NOINLINE void DecodedRowTile(const F32TileArgs& a) {
  constexpr IntFormat kFormat = IntFormatOf(kType);
  constexpr size_t kAheadBytes = 4096;
  constexpr size_t kLinesPerBlock = (kFormat.record_bytes() / kFormat.blocks_per_record + 63) / 64;
  F32x16 chains[kOneRowPanels];
  KVERN_UNROLL
  for (int p = 0; p < kOneRowPanels; ++p) chains[p] = Zero();
  auto cursor = BlockCursor<kType>::At(a.weights, 0);
  for (uint32_t k = 0; k < a.num_inputs; k += kBlockInputs, cursor.Next()) {
    const uint8_t* blocks[kOneRowPanels];
    HalfScales<kType> scales[kOneRowPanels];
    KVERN_UNROLL
    for (int p = 0; p < kOneRowPanels; ++p) {
      const BlockCursor<kType> of_panel = {cursor.record + static_cast<size_t>(p) * a.panel_bytes, cursor.block};
      blocks[p] = of_panel.codes();
      scales[p] = HalfScales<kType>(of_panel);
      for (size_t line = 0; line < kLinesPerBlock; ++line) Prefetch(blocks[p] + kAheadBytes + line * 64);
    }
    AddDecodedGroups<kType, 0>(blocks, scales, a.x + k, chains);
  }
  KVERN_UNROLL
  for (int p = 0; p < kOneRowPanels; ++p) {
    float* to = a.to + p * 16;
    Store(to, a.adds ? Add(Load(to), chains[p]) : chains[p]);
  }
}

// One pass of the tiles [tile_begin, tile_end) over this worker's panels.
struct F32Pass {
  const MatmulArgs& args;
  const ActivationLayout& layout;
  F32Scratch& scratch;
  uint32_t tile_begin, tile_end;

  const uint8_t* Panel(uint32_t panel) const { return args.weights.data + panel * args.weights.panel_bytes; }

  // `weights` are the chunk's, for one panel.
  template <DType kType>
  void RunTiles(const uint8_t* weights, uint32_t chunk, uint32_t num_inputs, uint32_t panel) const {
    for (uint32_t tile = tile_begin; tile < tile_end; ++tile) {
      const uint32_t first_row = layout.tile_begin(tile);
      // A chunk of several tiles is one of the layout; a single tile may be cut further, into parts of one cell.
      const uint32_t cell_begin = chunk / layout.chunk_inputs * layout.chunk_inputs;
      const float* cell = reinterpret_cast<const float*>(args.activations + layout.cell_offset(cell_begin, first_row));
      float* partials = scratch.partials + (first_row - layout.tile_begin(tile_begin)) * kPanelOutputs;
      const bool is_last = chunk + num_inputs >= args.weights.num_inputs;
      F32TileArgs a;
      a.weights = weights;
      a.panel_bytes = 0;
      a.num_inputs = num_inputs;
      a.x = cell + static_cast<size_t>(chunk - cell_begin) * layout.tile_rows(tile);
      a.from = chunk == 0 ? nullptr : partials;
      a.from_stride = kPanelOutputs;
      a.to = is_last ? args.out + first_row * args.out_stride + static_cast<size_t>(panel) * kPanelOutputs : partials;
      a.to_stride = is_last ? args.out_stride : kPanelOutputs;
      a.adds = is_last && args.accumulate;
      RunF32Tile<kType, kF32TileRows>(layout.tile_rows(tile), a);
    }
  }

  // Few rows go through several panels at once: so few chains would leave the multipliers waiting. All rows must be one
  // tile. Returns the first panel that is left.
  template <int kPanels, typename Tile>
  uint32_t RunFewRows(const Tile& tile) const {
    uint32_t panel = args.panel_begin;
    for (; panel + kPanels <= args.panel_end; panel += kPanels) {
      F32TileArgs a;
      a.weights = Panel(panel);
      a.panel_bytes = args.weights.panel_bytes;
      a.num_inputs = args.weights.num_inputs;
      a.x = reinterpret_cast<const float*>(args.activations);
      a.from = nullptr;
      a.from_stride = 0;
      a.to = args.out + static_cast<size_t>(panel) * kPanelOutputs;
      a.to_stride = args.out_stride;
      a.adds = args.accumulate;
      tile(a);
    }
    return panel;
  }

  template <DType kType>
  uint32_t RunFewFloatRows() const {
    if constexpr (kManyRegisters) {
      switch (layout.num_rows) {
        case 1: return RunFewRows<8>(F32Tile<kType, 1, 8>);
        case 2: return RunFewRows<4>(F32Tile<kType, 2, 4>);
        case 3: return RunFewRows<4>(F32Tile<kType, 3, 4>);
        case 4: return RunFewRows<4>(F32Tile<kType, 4, 4>);
        case 5: return RunFewRows<4>(F32Tile<kType, 5, 4>);
        case 6: return RunFewRows<4>(F32Tile<kType, 6, 4>);
        case 7: return RunFewRows<2>(F32Tile<kType, 7, 2>);
        case 8: return RunFewRows<2>(F32Tile<kType, 8, 2>);
      }
    } else {
      switch (layout.num_rows) {
        case 1: return RunFewRows<4>(F32Tile<kType, 1, 4>);
        case 2: return RunFewRows<2>(F32Tile<kType, 2, 2>);
      }
    }
    return args.panel_begin;
  }

  template <DType kType>
  void RunFloat() const {
    constexpr size_t kElementBytes = kType == DType::kF32 ? 4 : 2;
    uint32_t panel = RunFewFloatRows<kType>();
    for (; panel < args.panel_end; ++panel) {
      for (uint32_t chunk = 0; chunk < args.weights.num_inputs; chunk += layout.chunk_inputs) {
        RunTiles<kType>(Panel(panel) + chunk * 16 * kElementBytes, chunk, layout.inputs_of_chunk(chunk), panel);
      }
    }
  }

  template <DType kType>
  void RunInteger() const {
    uint32_t panel = layout.num_rows == 1 ? RunFewRows<kOneRowPanels>(DecodedRowTile<kType>) : args.panel_begin;
    for (; panel < args.panel_end; ++panel) {
      for (uint32_t chunk = 0; chunk < args.weights.num_inputs; chunk += kF32ChunkInputs) {
        const uint32_t num_inputs = std::min(kF32ChunkInputs, args.weights.num_inputs - chunk);
        DecodeChunk<kType>(Panel(panel), chunk / kBlockInputs, num_inputs / kBlockInputs, scratch.weights);
        RunTiles<DType::kF32>(reinterpret_cast<const uint8_t*>(scratch.weights), chunk, num_inputs, panel);
      }
    }
  }

  void Run() const {
    switch (args.weights.dtype) {
      case DType::kF32: return RunFloat<DType::kF32>();
      case DType::kF16: return RunFloat<DType::kF16>();
      case DType::kBF16: return RunFloat<DType::kBF16>();
      case DType::kQ4_0: return RunInteger<DType::kQ4_0>();
      case DType::kQ4_1: return RunInteger<DType::kQ4_1>();
      case DType::kQ5_0: return RunInteger<DType::kQ5_0>();
      case DType::kQ5_1: return RunInteger<DType::kQ5_1>();
      case DType::kQ8_0: return RunInteger<DType::kQ8_0>();
      case DType::kQ4_K: return RunInteger<DType::kQ4_K>();
      case DType::kQ5_K: return RunInteger<DType::kQ5_K>();
      case DType::kQ6_K: return RunInteger<DType::kQ6_K>();
    }
  }
};

KVERN_NOINLINE inline void MatmulF32(const MatmulArgs& args) {
  const ActivationLayout layout(ActivationForm::kF32, args.num_rows, args.weights.num_inputs);
  F32Scratch& scratch = *reinterpret_cast<F32Scratch*>(args.scratch);
  for (uint32_t tile = 0; tile < layout.num_tiles;) {
    const uint32_t row_begin = layout.tile_begin(tile);
    uint32_t end = tile + 1;
    while (end < layout.num_tiles && layout.tile_begin(end) + layout.tile_rows(end) - row_begin <= kMaxPassRows) ++end;
    F32Pass{args, layout, scratch, tile, end}.Run();
    tile = end;
  }
}
