// Products of integer weights with int8 activations. Included inside a target's namespace.
//
// Every output is one chain: acc = +0; then for each block (Q6_K: each half block) in the order of inputs
//   t = fma(d, kMagic + dot, -d * kMagic), which is d * dot rounded once
//   acc = fma(t, dx, acc)
//   acc = fma(min, sx, acc)       formats with minima only
#pragma once

// Scratch of one worker.
inline constexpr uint32_t kMaxPassRows = 512;     // Rows whose codes should stay in L2 while weights pass by.
inline constexpr size_t kNumStarts = 128 * 1024;  // i32: starts of the integer sums of a pass.
inline constexpr size_t kUnpackedCodeBytes = static_cast<size_t>(kInt8ChunkInputs) * 16 * kUnpackedTilePanels;
inline constexpr size_t kNumUnpackedScales = static_cast<size_t>(kInt8ChunkInputs) / 16 * 3 * 16 * kUnpackedTilePanels;
inline constexpr size_t kNumPartials = static_cast<size_t>(kMaxPassRows) * 16 * kUnpackedTilePanels;
static_assert(kNumStarts >= static_cast<size_t>(kDirectTileRows) * kMaxPackedInputs / 16);

struct alignas(64) Int8Scratch {
  uint8_t codes[kUnpackedCodeBytes];
  float scales[kNumUnpackedScales];
  float partials[kNumPartials];  // [row][16 * panels]: chains between two chunks.
  int32_t starts[kNumStarts];    // Cells like those of the activations: [sub][block][row].
};

// The activations, sums and surroundings of one tile.
struct TileArgs {
  uint32_t num_blocks;
  const int8_t* codes;
  const float* dx;
  const float* sx;
  const int32_t* starts;  // [sub][block][row]; not read for formats with minima.
  const float* from;      // Chains so far, [row][from_stride]; null at the first chunk.
  size_t from_stride;
  float* to;
  size_t to_stride;
  bool adds;                // to = to + sum instead of to = sum.
  const uint8_t* prefetch;  // Lines wanted soon, prefetch_lines at each block.
  uint32_t prefetch_lines;
};

template <typename Source, int kSub, int kStep, int kRows>
KVERN_INLINE void AddGroups(const Source& source, const int8_t* codes,
                            DotSum<Source::kBits> (&sums)[kRows][Source::kPanels]) {
  constexpr int kBits = Source::kBits, kPanels = Source::kPanels;
  constexpr int kGroups = 8 / Source::kSubs;
  constexpr int kFirst = kSub * kGroups;
  // k-groups that share a vector of nibbles, one after the other; a chain's steps are a whole group of rows apart.
  constexpr bool kPairs = Source::kSubs == 1 && kBits < 8;
  constexpr int kGroup0 = kFirst + (kPairs ? kStep / 2 + kStep % 2 * 4 : kStep);
  if constexpr (kDotStep<kBits> == 2) {
    constexpr int kGroup1 = kFirst + (kPairs ? kStep / 2 + 4 : kStep + 1);
    KVERN_UNROLL
    for (int p = 0; p < kPanels; ++p) {
      const auto codes0 = source.template Codes<kGroup0>(p), codes1 = source.template Codes<kGroup1>(p);
      KVERN_UNROLL
      for (int r = 0; r < kRows; ++r) {
        DotAddPair<kBits>(sums[r][p], codes0, codes1, LoadQuad(codes + (kGroup0 * kRows + r) * 4),
                          LoadQuad(codes + (kGroup1 * kRows + r) * 4));
      }
    }
  } else if constexpr (kPanels == 1) {
    const auto codes0 = source.template Codes<kGroup0>(0);
    KVERN_UNROLL
    for (int r = 0; r < kRows; ++r) {
      DotAddFromMemory<kBits>(sums[r][0], codes0, codes + (kGroup0 * kRows + r) * 4);
    }
  } else {
    DotCodes<kBits> group[kPanels];
    KVERN_UNROLL
    for (int p = 0; p < kPanels; ++p) group[p] = source.template Codes<kGroup0>(p);
    KVERN_UNROLL
    for (int r = 0; r < kRows; ++r) {
      const Quad a = LoadQuad(codes + (kGroup0 * kRows + r) * 4);
      KVERN_UNROLL
      for (int p = 0; p < kPanels; ++p) DotAdd<kBits>(sums[r][p], group[p], a);
    }
  }
  if constexpr (kStep + kDotStep<kBits> < kGroups)
    AddGroups<Source, kSub, kStep + kDotStep<kBits>>(source, codes, sums);
}

// Chains in registers or, where the integer sums leave no room for them, in memory.
template <int kRows, int kPanels>
struct Chains {
  static constexpr bool kInMemory = !kManyRegisters || kRows * kPanels > 14;
  F32x16 registers[kInMemory ? 1 : kRows][kPanels];
  alignas(64) float memory[kInMemory ? kRows : 1][kPanels * 16];

  KVERN_INLINE F32x16 Get(int r, int p) const {
    if constexpr (kInMemory)
      return Load(&memory[r][p * 16]);
    else
      return registers[r][p];
  }
  KVERN_INLINE void Set(int r, int p, F32x16 x) {
    if constexpr (kInMemory)
      Store(&memory[r][p * 16], x);
    else
      registers[r][p] = x;
  }
};

template <typename Source, int kRows, int kSub>
KVERN_INLINE void AddSubBlock(const Source& source, const TileArgs& a, const int8_t* codes, const float* dx,
                              const float* sx, const int32_t* starts, Chains<kRows, Source::kPanels>& chains) {
  constexpr int kPanels = Source::kPanels, kBits = Source::kBits;
  const int32_t* start = starts + static_cast<size_t>(kSub) * a.num_blocks * kRows;
  DotSum<kBits> sums[kRows][kPanels];
  KVERN_UNROLL
  for (int r = 0; r < kRows; ++r) {
    KVERN_UNROLL
    for (int p = 0; p < kPanels; ++p) sums[r][p] = DotBegin<kBits>(Source::kHasMin ? kMagicBits : start[r]);
  }
  AddGroups<Source, kSub, 0>(source, codes, sums);
  KVERN_UNROLL
  for (int p = 0; p < kPanels; ++p) {
    const BlockScales scales = source.Scales(p, kSub);
    KVERN_UNROLL
    for (int r = 0; r < kRows; ++r) {
      const F32x16 dot = FloatFromBits(DotEnd<kBits>(sums[r][p], Source::kHasMin ? kMagicBits : start[r]));
      const F32x16 t = Fma(scales.d, dot, scales.minus_d_magic);
      F32x16 chain = Fma(t, Set1(dx[r]), chains.Get(r, p));
      if constexpr (Source::kHasMin) chain = Fma(scales.min, Set1(sx[r]), chain);
      chains.Set(r, p, chain);
    }
  }
}

template <typename Source, int kRows>
KVERN_NOINLINE void Int8Tile(Source source, const TileArgs& a) {
  constexpr int kPanels = Source::kPanels;
  Chains<kRows, kPanels> chains;
  KVERN_UNROLL
  for (int r = 0; r < kRows; ++r) {
    KVERN_UNROLL
    for (int p = 0; p < kPanels; ++p) {
      chains.Set(r, p, a.from == nullptr ? Zero() : Load(a.from + static_cast<size_t>(r) * a.from_stride + p * 16));
    }
  }
  const int8_t* codes = a.codes;
  const float* dx = a.dx;
  const float* sx = a.sx;
  const int32_t* starts = a.starts;
  const uint8_t* prefetch = a.prefetch;
  for (uint32_t b = 0; b < a.num_blocks; ++b) {
    for (uint32_t i = 0; i < a.prefetch_lines; ++i, prefetch += 64) Prefetch(prefetch);
    AddSubBlock<Source, kRows, 0>(source, a, codes, dx, sx, starts, chains);
    if constexpr (Source::kSubs == 2) AddSubBlock<Source, kRows, 1>(source, a, codes, dx, sx, starts, chains);
    source.Next();
    codes += 32 * kRows;
    dx += kRows;
    sx += kRows;
    starts += kRows;
  }
  KVERN_UNROLL
  for (int r = 0; r < kRows; ++r) {
    float* to = a.to + static_cast<size_t>(r) * a.to_stride;
    KVERN_UNROLL
    for (int p = 0; p < kPanels; ++p) {
      const F32x16 sum = chains.Get(r, p);
      Store(to + p * 16, a.adds ? Add(Load(to + p * 16), sum) : sum);
    }
  }
}

// Calls Int8Tile<Source, rows> for 1 <= rows <= kMaxRows.
template <typename Source, uint32_t kMaxRows>
KVERN_INLINE void RunInt8Tile(uint32_t rows, const Source& source, const TileArgs& a) {
  if constexpr (kMaxRows > 1) {
    if (rows < kMaxRows) return RunInt8Tile<Source, kMaxRows - 1>(rows, source, a);
  }
  Int8Tile<Source, static_cast<int>(kMaxRows)>(source, a);
}

// One pass of the rows [row_begin, row_end) (whole tiles) over this worker's panels.
template <DType kType>
struct Int8Pass {
  static constexpr IntFormat kFormat = IntFormatOf(kType);
  static constexpr int kSubs = kFormat.subs_per_block;
  static constexpr int kUnpackedBits = kDotWidthMatters ? kFormat.bits : 8;
  using Direct = PanelSource<kType>;
  using UnpackedPanel = UnpackedSource<kUnpackedBits, kFormat.has_min, kSubs, 1>;
  using Unpacked = UnpackedSource<kUnpackedBits, kFormat.has_min, kSubs, kUnpackedTilePanels>;
  // Whether unpacking a block takes long enough that two tiles should not both do it.
  static constexpr bool kUnpackingIsDear = kFormat.bits == 5 || kFormat.bits == 6 || kFormat.is_two_level;

  const MatmulArgs& args;
  const ActivationLayout& layout;
  Int8Scratch& scratch;
  uint32_t tile_begin, tile_end;
  uint32_t row_begin, row_end;

  size_t StartsOffset(uint32_t chunk_begin, uint32_t first_row) const {
    const size_t rows = row_end - row_begin;
    return (chunk_begin * rows + static_cast<size_t>(first_row - row_begin) * layout.inputs_of_chunk(chunk_begin)) /
           kBlockInputs * kSubs;
  }

  Int8Cell<const uint8_t> Cell(uint32_t chunk_begin, uint32_t tile) const {
    return {args.activations + layout.cell_offset(chunk_begin, layout.tile_begin(tile)),
            layout.inputs_of_chunk(chunk_begin) / kBlockInputs, layout.tile_rows(tile)};
  }

  // The integer sums of formats without minima start at kMagicBits - zero_code * (sum of the activation codes).
  void PrepareStarts() const {
    constexpr int kZeroCode = DotZeroCode<kFormat.bits>(kFormat.zero_code);
    for (uint32_t chunk = 0; chunk < args.weights.num_inputs; chunk += layout.chunk_inputs) {
      for (uint32_t tile = tile_begin; tile < tile_end; ++tile) {
        const size_t n = static_cast<size_t>(layout.inputs_of_chunk(chunk) / kBlockInputs) * layout.tile_rows(tile);
        const int32_t* sums = Cell(chunk, tile).sums;
        int32_t* starts = scratch.starts + StartsOffset(chunk, layout.tile_begin(tile));
        if constexpr (kSubs == 2) {
          for (size_t i = 0; i < 2 * n; ++i) starts[i] = kMagicBits - kZeroCode * sums[i];
        } else {
          for (size_t i = 0; i < n; ++i) starts[i] = kMagicBits - kZeroCode * (sums[i] + sums[n + i]);
        }
      }
    }
  }

  // Everything of a tile's arguments but the weights and what to prefetch. `width` is the width of a row of partials.
  TileArgs ArgsFor(uint32_t tile, uint32_t chunk_begin, uint32_t panel, size_t width) const {
    const uint32_t chunk_inputs = layout.inputs_of_chunk(chunk_begin);
    const uint32_t first_row = layout.tile_begin(tile);
    const Int8Cell<const uint8_t> cell = Cell(chunk_begin, tile);
    float* partials = scratch.partials + (first_row - row_begin) * width;
    const bool is_last = chunk_begin + chunk_inputs >= args.weights.num_inputs;
    TileArgs a;
    a.num_blocks = chunk_inputs / kBlockInputs;
    a.codes = cell.codes;
    a.dx = cell.dx;
    a.sx = cell.sx;
    a.starts = scratch.starts + (kFormat.has_min ? 0 : StartsOffset(chunk_begin, first_row));
    a.from = chunk_begin == 0 ? nullptr : partials;
    a.from_stride = width;
    a.to = is_last ? args.out + first_row * args.out_stride + static_cast<size_t>(panel) * kPanelOutputs : partials;
    a.to_stride = is_last ? args.out_stride : width;
    a.adds = is_last && args.accumulate;
    a.prefetch = nullptr;
    a.prefetch_lines = 0;
    return a;
  }

  const uint8_t* Panel(uint32_t panel) const { return args.weights.data + panel * args.weights.panel_bytes; }

  // One panel, chunk by chunk. The first tile fetches ahead what streams from memory; the others find the chunk in L1.
  void RunDirect(uint32_t panel) const {
    constexpr uint32_t kAheadBytes = 8192;
    constexpr uint32_t kLinesPerBlock = (kFormat.record_bytes() / kFormat.blocks_per_record + 63) / 64;
    for (uint32_t chunk = 0; chunk < args.weights.num_inputs; chunk += layout.chunk_inputs) {
      const auto cursor = BlockCursor<kType>::At(Panel(panel), chunk / kBlockInputs);
      const bool is_unpacked = kUnpackingIsDear && tile_end - tile_begin > 1;
      if (is_unpacked) UnpackPanels<1>(panel, chunk);
      for (uint32_t tile = tile_begin; tile < tile_end; ++tile) {
        TileArgs a = ArgsFor(tile, chunk, panel, kPanelOutputs);
        if (tile == tile_begin) {
          a.prefetch = cursor.codes() + kAheadBytes;
          a.prefetch_lines = kLinesPerBlock;
        }
        if constexpr (kUnpackingIsDear) {
          if (is_unpacked) {
            RunInt8Tile<UnpackedPanel, kDirectTileRows>(layout.tile_rows(tile),
                                                        UnpackedPanel{scratch.codes, scratch.scales}, a);
            continue;
          }
        }
        RunInt8Tile<Direct, kDirectTileRows>(layout.tile_rows(tile), Direct{cursor}, a);
      }
    }
  }

  template <int kPanels>
  void UnpackPanels(uint32_t panel, uint32_t chunk) const {
    UnpackChunk<kType, kPanels>(Panel(panel), args.weights.panel_bytes, chunk / kBlockInputs,
                                layout.inputs_of_chunk(chunk) / kBlockInputs, scratch.codes, scratch.scales);
  }

  // kUnpackedTilePanels panels, unpacked chunk by chunk. For each block of work the first tiles fetch a line of what is
  // unpacked next.
  void RunUnpacked(uint32_t panel) const {
    const uint32_t num_inputs = args.weights.num_inputs;
    const size_t part_bytes = layout.chunk_inputs / kBlockInputs * kFormat.record_bytes() / kFormat.blocks_per_record;
    for (uint32_t chunk = 0; chunk < num_inputs; chunk += layout.chunk_inputs) {
      UnpackPanels<kUnpackedTilePanels>(panel, chunk);
      const uint8_t* const next = NextUnpacked(panel, chunk);
      size_t fetched = 0;
      for (uint32_t tile = tile_begin; tile < tile_end; ++tile) {
        TileArgs a = ArgsFor(tile, chunk, panel, kPanelOutputs * kUnpackedTilePanels);
        if (next != nullptr && fetched < kUnpackedTilePanels * part_bytes) {
          a.prefetch = next + fetched / part_bytes * args.weights.panel_bytes + fetched % part_bytes;
          a.prefetch_lines = 1;
          fetched += size_t{a.num_blocks} * 64;
        }
        RunInt8Tile<Unpacked, kUnpackedTileRows>(layout.tile_rows(tile), Unpacked{scratch.codes, scratch.scales}, a);
      }
    }
  }

  // Where the chunk stands that is unpacked after `chunk` of the panels at `panel`; null after the last.
  const uint8_t* NextUnpacked(uint32_t panel, uint32_t chunk) const {
    chunk += layout.inputs_of_chunk(chunk);
    if (chunk >= args.weights.num_inputs) {
      chunk = 0;
      panel += kUnpackedTilePanels;
    }
    if (panel + kUnpackedTilePanels > args.panel_end) return nullptr;
    return BlockCursor<kType>::At(Panel(panel), chunk / kBlockInputs).record;
  }

  void Run() const {
    if constexpr (!kFormat.has_min) PrepareStarts();
    uint32_t panel = args.panel_begin;
    if (!layout.is_direct()) {
      for (; panel + kUnpackedTilePanels <= args.panel_end; panel += kUnpackedTilePanels) RunUnpacked(panel);
    }
    for (; panel < args.panel_end; ++panel) RunDirect(panel);
  }
};

template <DType kType>
KVERN_NOINLINE void MatmulInt8Of(const MatmulArgs& args) {
  const ActivationLayout layout(ActivationForm::kInt8, args.num_rows, args.weights.num_inputs);
  Int8Scratch& scratch = *reinterpret_cast<Int8Scratch*>(args.scratch);
  const size_t starts_per_row = std::max(args.weights.num_inputs / 16, 1u);
  const uint32_t pass_rows = static_cast<uint32_t>(std::min<size_t>(kMaxPassRows, kNumStarts / starts_per_row));
  for (uint32_t tile = 0; tile < layout.num_tiles;) {
    const uint32_t row_begin = layout.tile_begin(tile);
    uint32_t end = tile + 1;
    while (end < layout.num_tiles && layout.tile_begin(end) + layout.tile_rows(end) - row_begin <= pass_rows) ++end;
    const uint32_t row_end = layout.tile_begin(end - 1) + layout.tile_rows(end - 1);
    Int8Pass<kType>{args, layout, scratch, tile, end, row_begin, row_end}.Run();
    tile = end;
  }
}

KVERN_INLINE void MatmulInt8(const MatmulArgs& args) {
  switch (args.weights.dtype) {
    case DType::kQ4_0: return MatmulInt8Of<DType::kQ4_0>(args);
    case DType::kQ4_1: return MatmulInt8Of<DType::kQ4_1>(args);
    case DType::kQ5_0: return MatmulInt8Of<DType::kQ5_0>(args);
    case DType::kQ5_1: return MatmulInt8Of<DType::kQ5_1>(args);
    case DType::kQ8_0: return MatmulInt8Of<DType::kQ8_0>(args);
    case DType::kQ4_K: return MatmulInt8Of<DType::kQ4_K>(args);
    case DType::kQ5_K: return MatmulInt8Of<DType::kQ5_K>(args);
    case DType::kQ6_K: return MatmulInt8Of<DType::kQ6_K>(args);
    default: KVERN_DCHECK(false);  // Float weights are multiplied with the f32 form.
  }
}
