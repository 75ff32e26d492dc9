// How activations lie in memory for the products, and packing them. Included inside a target's namespace.
//
// Rows are cut into tiles, inputs into chunks; both depend on the number of rows only. A cell is one tile's part of one
// chunk; cells stand chunk after chunk, tile after tile. R rows by B blocks of 32 inputs make, in the int8 form,
//   codes  [B][8 k-groups][R][4] i8
//   dx     [B][R] f32      scale of the block's codes
//   sx     [B][R] f32      dx * (sum of the block's codes)
//   sums   [2][B][R] i32   sum of its first and its last 16 codes
// and in the f32 form [inputs of the chunk][R] f32. One form of each serves every weight format.
#pragma once

// Tiles whose accumulators fill the registers: straight from the packed weights one panel wide (direct), and from
// unpacked codes in L1 (more rows than kMaxDirectRows), where the cost of unpacking is shared by all row tiles.
inline constexpr bool kManyRegisters = kNumRegisters >= 32;
inline constexpr bool kFewRegisters = kNumRegisters < 8;
inline constexpr uint32_t kDirectTileRows = kManyRegisters ? 14 : kFewRegisters ? 2 : 4;
inline constexpr uint32_t kMaxDirectRows = kManyRegisters ? 56 : kDirectTileRows;
inline constexpr uint32_t kUnpackedTileRows = kManyRegisters ? 8 : kDirectTileRows;
inline constexpr int kUnpackedTilePanels = kManyRegisters ? 2 : 1;
inline constexpr uint32_t kF32TileRows = kManyRegisters ? 14 : kFewRegisters ? 2 : 6;
static_assert(kUnpackedTileRows <= kDirectTileRows);

inline constexpr uint32_t kInt8ChunkInputs = 576;  // At most; codes of a chunk for 32 outputs: 18 KiB.
inline constexpr uint32_t kF32ChunkInputs = 256;   // The same as floats for 16 outputs.

inline constexpr uint32_t kBlockInputs = 32;
inline constexpr size_t kInt8BlockBytes = 48;  // Of one row's block in a cell: codes, dx, sx, two sums.

struct ActivationLayout {
  ActivationForm form;
  uint32_t num_rows, num_inputs;
  uint32_t num_tiles;
  uint32_t chunk_inputs;

  ActivationLayout(ActivationForm f, uint32_t rows, uint32_t inputs) : form(f), num_rows(rows), num_inputs(inputs) {
    const uint32_t tile_rows = f == ActivationForm::kF32 ? kF32TileRows
                               : is_direct()             ? kDirectTileRows
                                                         : kUnpackedTileRows;
    num_tiles = (rows + tile_rows - 1) / tile_rows;
    // A single tile has no other tile to share a chunk of weights with.
    chunk_inputs = num_tiles == 1              ? std::max(inputs, 1u)
                   : f == ActivationForm::kF32 ? kF32ChunkInputs
                                               : EvenChunk(inputs);
  }

  // Chunks of even size in whole blocks: a short last one would pay for unpacking and parking chains all the same.
  static uint32_t EvenChunk(uint32_t inputs) {
    const uint32_t num_chunks = std::max((inputs + kInt8ChunkInputs - 1) / kInt8ChunkInputs, 1u);
    const uint32_t num_blocks = (inputs + kBlockInputs - 1) / kBlockInputs;
    return std::max((num_blocks + num_chunks - 1) / num_chunks, 1u) * kBlockInputs;
  }

  bool is_direct() const { return num_rows <= kMaxDirectRows; }
  // Tiles are balanced: the first num_rows % num_tiles of them have one row more than the others.
  uint32_t tile_begin(uint32_t tile) const {
    return tile * (num_rows / num_tiles) + std::min(tile, num_rows % num_tiles);
  }
  uint32_t tile_rows(uint32_t tile) const { return num_rows / num_tiles + (tile < num_rows % num_tiles ? 1 : 0); }
  uint32_t tile_of_row(uint32_t row) const {
    const uint32_t small = num_rows / num_tiles, num_large = num_rows % num_tiles;
    return row < num_large * (small + 1) ? row / (small + 1) : num_large + (row - num_large * (small + 1)) / small;
  }
  uint32_t inputs_of_chunk(uint32_t chunk_begin) const { return std::min(chunk_inputs, num_inputs - chunk_begin); }

  // Where the cell of the tile that begins at `first_row` lies in the chunk that begins at input `chunk_begin`.
  size_t cell_offset(uint32_t chunk_begin, uint32_t first_row) const {
    const size_t inputs_before =
        static_cast<size_t>(chunk_begin) * num_rows + static_cast<size_t>(first_row) * inputs_of_chunk(chunk_begin);
    return form == ActivationForm::kF32 ? inputs_before * sizeof(float)
                                        : inputs_before / kBlockInputs * kInt8BlockBytes;
  }
};

// The parts of a cell of the int8 form.
template <typename Byte>
struct Int8Cell {
  template <typename T>
  using Like = std::conditional_t<std::is_const_v<Byte>, const T, T>;
  Like<int8_t>* codes;
  Like<float>* dx;
  Like<float>* sx;
  Like<int32_t>* sums;

  Int8Cell(Byte* cell, size_t num_blocks, size_t rows) {
    const size_t n = num_blocks * rows;
    codes = reinterpret_cast<Like<int8_t>*>(cell);
    dx = reinterpret_cast<Like<float>*>(cell + n * kBlockInputs);
    sx = dx + n;
    sums = reinterpret_cast<Like<int32_t>*>(sx + n);
  }
};

size_t ActivationBytes(ActivationForm form, uint32_t num_rows, uint32_t num_inputs) {
  const size_t inputs = static_cast<size_t>(num_rows) * num_inputs;
  const size_t bytes = form == ActivationForm::kF32 ? inputs * sizeof(float) : inputs / kBlockInputs * kInt8BlockBytes;
  return (bytes + 63) / 64 * 64;
}

// Up to kQuantisedAtOnce consecutive blocks of a row as codes, with what belongs to each (docs/numerics.md,
// "Activations as int8"): dx = max |x| / 127, code = x * (127 / max |x|) to the nearest integer, ties to even. Several
// at once share the steps over lanes and the divisions.
inline constexpr uint32_t kQuantisedAtOnce = 16;
struct QuantisedBlocks {
  alignas(64) int8_t codes[kQuantisedAtOnce][kBlockInputs];
  float dx[kQuantisedAtOnce], sx[kQuantisedAtOnce];
  int32_t sums[2 * kQuantisedAtOnce];  // Of the first and the last 16 codes of each.
};

// max |x| of each block as bits, which order like the magnitudes, with infinity and then NaN on top.
KVERN_INLINE void MaxMagnitudes(const float* x, uint32_t num_blocks, int32_t* max_bits) {
  const I32x16 magnitude = Set1I32(0x7fffffff);
  for (uint32_t b = 0; b < kQuantisedAtOnce; b += 4) {
    I32x16 maxima[4];
    KVERN_UNROLL
    for (uint32_t i = 0; i < 4; ++i) {
      const float* block = x + (b + i) * kBlockInputs;
      maxima[i] = b + i < num_blocks
                      ? Max(And(BitsOf(Load(block)), magnitude), And(BitsOf(Load(block + 16)), magnitude))
                      : Set1I32(0);
    }
    HorizontalMaxOf4(maxima, max_bits + b);
  }
}

KVERN_INLINE void QuantiseBlocks(const float* x, uint32_t num_blocks, QuantisedBlocks& out) {
  constexpr int32_t kInfinityBits = 0x7f800000;
  constexpr int32_t kTinyBits = 0x0d800000;  // 2^-100: below it 127 / max |x| might not be finite.
  alignas(64) int32_t max_bits[kQuantisedAtOnce];
  MaxMagnitudes(x, num_blocks, max_bits);
  const I32x16 bits = Load(max_bits);
  const F32x16 max = FloatFromBits(bits), zero = Zero();
  const Mask16 is_tiny = Greater(Set1I32(kTinyBits), bits), is_finite = Greater(Set1I32(kInfinityBits), bits);
  const F32x16 nan = Set1(std::numeric_limits<float>::quiet_NaN());
  const F32x16 dx = Select(is_finite, Select(is_tiny, zero, Div(max, Set1(127.0f))), nan);
  alignas(64) float inverses[kQuantisedAtOnce];  // 0: all codes are 0.
  Store(inverses, Select(is_finite, Select(is_tiny, zero, Div(Set1(127.0f), max)), zero));

  for (uint32_t b = 0; b < num_blocks; b += 2) {
    I32x16 codes[4];  // Halves of two blocks.
    KVERN_UNROLL
    for (uint32_t i = 0; i < 4; ++i) {
      const uint32_t block = b + i / 2;
      codes[i] = Set1I32(0);
      if (block < num_blocks && inverses[block] != 0) {
        codes[i] = ToI32(Mul(Load(x + block * kBlockInputs + i % 2 * 16), Set1(inverses[block])));
      }
      StoreLowBytes(&out.codes[block][i % 2 * 16], codes[i]);
    }
    HorizontalSumOf4(codes, out.sums + 2 * b);
  }
  Store(out.dx, dx);
  for (uint32_t b = 0; b < num_blocks; ++b) {
    out.sx[b] = out.dx[b] * static_cast<float>(out.sums[2 * b] + out.sums[2 * b + 1]);
  }
}

void Int8Residual(const float* x, uint32_t n, float* residual) {
  for (uint32_t k = 0; k < n; k += kQuantisedAtOnce * kBlockInputs) {
    const uint32_t num_blocks = std::min(kQuantisedAtOnce, (n - k) / kBlockInputs);
    QuantisedBlocks blocks;
    QuantiseBlocks(x + k, num_blocks, blocks);
    for (uint32_t i = 0; i < num_blocks * kBlockInputs; i += 16) {
      const F32x16 codes = ToF32(LoadI8(&blocks.codes[i / kBlockInputs][i % kBlockInputs]));
      Store(residual + k + i, Fma(Set1(-blocks.dx[i / kBlockInputs]), codes, Load(x + k + i)));
    }
  }
}

KVERN_INLINE void PackInt8(const ActivationPackArgs& args, const ActivationLayout& layout) {
  for (uint32_t row = args.row_begin; row < args.row_end; ++row) {
    const uint32_t tile = layout.tile_of_row(row);
    const uint32_t first_row = layout.tile_begin(tile);
    const uint32_t rows = layout.tile_rows(tile);
    const float* x = args.x + row * args.x_stride;
    for (uint32_t k = args.col_begin; k < args.col_end;) {
      const uint32_t chunk_begin = k / layout.chunk_inputs * layout.chunk_inputs;
      const uint32_t chunk_inputs = layout.inputs_of_chunk(chunk_begin);
      const uint32_t num_blocks = chunk_inputs / kBlockInputs;
      const Int8Cell<uint8_t> cell(args.packed + layout.cell_offset(chunk_begin, first_row), num_blocks, rows);
      const uint32_t end = std::min(args.col_end, chunk_begin + chunk_inputs);
      while (k < end) {
        const uint32_t count = std::min(kQuantisedAtOnce, (end - k) / kBlockInputs);
        QuantisedBlocks blocks;
        QuantiseBlocks(x + k, count, blocks);
        for (uint32_t i = 0; i < count; ++i, k += kBlockInputs) {
          const size_t b = (k - chunk_begin) / kBlockInputs;
          const size_t at = b * rows + (row - first_row);
          int8_t* codes = cell.codes + (b * 8 * rows + (row - first_row)) * 4;
          for (size_t g = 0; g < 8; ++g) std::memcpy(codes + g * rows * 4, blocks.codes[i] + g * 4, 4);
          cell.dx[at] = blocks.dx[i];
          cell.sx[at] = blocks.sx[i];
          cell.sums[at] = blocks.sums[2 * i];
          cell.sums[num_blocks * rows + at] = blocks.sums[2 * i + 1];
        }
      }
    }
  }
}

KVERN_INLINE void PackF32(const ActivationPackArgs& args, const ActivationLayout& layout) {
  for (uint32_t row = args.row_begin; row < args.row_end; ++row) {
    const uint32_t tile = layout.tile_of_row(row);
    const uint32_t first_row = layout.tile_begin(tile);
    const size_t rows = layout.tile_rows(tile);
    const float* x = args.x + row * args.x_stride;
    for (uint32_t k = args.col_begin; k < args.col_end;) {
      const uint32_t chunk_begin = k / layout.chunk_inputs * layout.chunk_inputs;
      float* cell = reinterpret_cast<float*>(args.packed + layout.cell_offset(chunk_begin, first_row));
      const uint32_t end = std::min(args.col_end, chunk_begin + layout.inputs_of_chunk(chunk_begin));
      for (; k < end; ++k) cell[(k - chunk_begin) * rows + (row - first_row)] = x[k];
    }
  }
}

void PackActivations(const ActivationPackArgs& args) {
  if (args.num_rows == 0) return;
  const ActivationLayout layout(args.form, args.num_rows, args.num_inputs);
  if (args.form == ActivationForm::kF32) {
    PackF32(args, layout);
  } else {
    KVERN_DCHECK(args.num_inputs % kBlockInputs == 0 && args.col_begin % kBlockInputs == 0 &&
                 args.col_end % kBlockInputs == 0);
    PackInt8(args, layout);
  }
}
