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

// One row's 32 activations x as codes, with what belongs to them (docs/numerics.md, "Activations as int8"):
//   dx = max |x| / 127, code = x * (127 / max |x|) to the nearest integer, ties to even.
struct QuantisedBlock {
  alignas(32) int8_t codes[kBlockInputs];
  float dx, sx;
  int32_t sums[2];
};

KVERN_INLINE void QuantiseBlock(const float* x, QuantisedBlock& block) {
  const F32x16 x0 = Load(x), x1 = Load(x + 16);
  const I32x16 magnitude = Set1I32(0x7fffffff);
  // The bits of magnitudes order like the magnitudes, with infinity and then NaN on top.
  const int32_t max_bits = HorizontalMax(Max(And(BitsOf(x0), magnitude), And(BitsOf(x1), magnitude)));
  constexpr int32_t kInfinityBits = 0x7f800000;
  constexpr int32_t kTinyBits = 0x0d800000;  // 2^-100: below it 127 / max |x| might not be finite.
  if (max_bits < kTinyBits || max_bits >= kInfinityBits) {
    const float dx = max_bits < kTinyBits ? 0.0f : std::numeric_limits<float>::quiet_NaN();
    std::memset(block.codes, 0, sizeof(block.codes));
    block.dx = block.sx = dx;
    block.sums[0] = block.sums[1] = 0;
    return;
  }
  const float max = std::bit_cast<float>(max_bits);
  const F32x16 inverse = Set1(127.0f / max);
  const I32x16 q0 = ToI32(Mul(x0, inverse)), q1 = ToI32(Mul(x1, inverse));
  StoreLowBytes(block.codes, q0);
  StoreLowBytes(block.codes + 16, q1);
  block.sums[0] = HorizontalSum(q0);
  block.sums[1] = HorizontalSum(q1);
  block.dx = max / 127.0f;
  block.sx = block.dx * static_cast<float>(block.sums[0] + block.sums[1]);
}

void Int8Residual(const float* x, uint32_t n, float* residual) {
  for (uint32_t k = 0; k < n; k += kBlockInputs) {
    QuantisedBlock block;
    QuantiseBlock(x + k, block);
    const F32x16 minus_dx = Set1(-block.dx);
    for (uint32_t i = 0; i < kBlockInputs; i += 16) {
      Store(residual + k + i, Fma(minus_dx, ToF32(LoadI8(block.codes + i)), Load(x + k + i)));
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
      for (; k < end; k += kBlockInputs) {
        QuantisedBlock block;
        QuantiseBlock(x + k, block);
        const size_t b = (k - chunk_begin) / kBlockInputs;
        const size_t at = b * rows + (row - first_row);
        int8_t* codes = cell.codes + (b * 8 * rows + (row - first_row)) * 4;
        for (size_t g = 0; g < 8; ++g) std::memcpy(codes + g * rows * 4, block.codes + g * 4, 4);
        cell.dx[at] = block.dx;
        cell.sx[at] = block.sx;
        cell.sums[at] = block.sums[0];
        cell.sums[num_blocks * rows + at] = block.sums[1];
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
