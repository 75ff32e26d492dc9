// KernelTable: every kernel of one target, as function pointers. Chosen once at start (dispatch.h) and passed down.
//
// All targets compute the same bits (docs/numerics.md): a kernel's result depends on its mathematical inputs only,
// never on target, batch size, tile, thread count or chunk. Shapes are the caller's duty (KVERN_DCHECK); nothing fails
// at run time. Kernels that take a range are called by every worker of a parallel region with its own part; parts do
// not synchronise.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/kv_view.h"
#include "kernels/packed_matrix.h"

namespace kvern {

// The form in which a product reads its activations.
enum class ActivationForm : uint8_t {
  kInt8,  // Codes with one f32 scale per 32 and their sums: for integer weight formats.
  kF32,   // As they are: for float weights, and for every weight where the user asks for --activations f32.
};

struct ActivationPackArgs {
  ActivationForm form;
  const float* x;       // [num_rows][x_stride]
  size_t x_stride;      // In floats.
  uint32_t num_rows;    // Rows of the whole batch: they decide the row tiles.
  uint32_t num_inputs;  // K; a multiple of 32 for kInt8.
  uint32_t row_begin, row_end;
  uint32_t col_begin, col_end;  // A part of the columns; multiples of 32 (or num_inputs).
  uint8_t* packed;              // activation_bytes(form, num_rows, num_inputs) bytes, 64-aligned.
};

struct MatmulArgs {
  PackedMatrixView weights;
  ActivationForm form;
  const uint8_t* activations;  // Packed for num_rows x weights.num_inputs.
  uint32_t num_rows;           // >= 1
  float* out;                  // [num_rows][out_stride]: out[r, o] = sum_k weights[o, k] * x[r, k]
  size_t out_stride;           // In floats, >= num_outputs rounded up to 16 (whole panels are written).
  bool accumulate;             // out = out + sum: one addition after the sum is complete.
  uint32_t panel_begin, panel_end;
  uint8_t* scratch;  // matmul_scratch_bytes() bytes of this worker's own, 64-aligned.
};

// Some tokens, one KV head, a range of splits: see kernels/attention.h, which cuts the work.
struct AttentionTile;

struct KernelTable {
  const char* name;  // "generic", "avx2", "avx2-vnni", "avx512", "avx512-vnni", "neon".

  // ---- products (inl/matmul.inl.h)
  size_t (*activation_bytes)(ActivationForm form, uint32_t num_rows, uint32_t num_inputs);
  void (*pack_activations)(const ActivationPackArgs& args);
  // What rounding x to the int8 form leaves: residual[i] = fma(-dx, code, x[i]). n is a multiple of 32; in place is
  // allowed. The int8 form of x and that of its residual together are x to about 15 bits.
  void (*int8_residual)(const float* x, uint32_t n, float* residual);
  size_t (*matmul_scratch_bytes)();
  void (*matmul)(const MatmulArgs& args);

  // ---- rows (inl/elementwise.inl.h)
  // out[i] = (x[i] * r) * weight[i], r = 1 / sqrt(sum(x^2) / n + eps). In place is allowed. n is any size >= 1.
  void (*rms_norm)(const float* x, const float* weight, uint32_t n, float eps, float* out);
  // out[i] = gate[i] / (1 + exp(-gate[i])) * up[i]. In place is allowed.
  void (*swiglu)(const float* gate, const float* up, uint32_t n, float* out);
  // out[i] = gelu(gate[i]) * up[i], gelu(x) = x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x^3))). In place is
  // allowed.
  void (*geglu)(const float* gate, const float* up, uint32_t n, float* out);
  // Rotates adjacent pairs (2i, 2i + 1) of `num_heads` heads of head_dim floats at x by angle i: cos[i], sin[i],
  // i < rope_dim / 2; dims from rope_dim on stay as they are.
  //   x0' = x0 * cos - x1 * sin;  x1' = x0 * sin + x1 * cos   (each one multiply and one fma, order in
  //   docs/numerics.md)
  void (*rope_pairs)(float* x, uint32_t num_heads, uint32_t head_dim, uint32_t rope_dim, const float* cos,
                     const float* sin);
  // Index of the largest value, the lowest index where several are equal; NaN is never larger. n >= 1.
  uint32_t (*argmax)(const float* x, uint32_t n);
  // p[i] = exp(scale * (x[i] - max x)), +0 far below; returns their sum in the fixed lane order. n >= 1; in place
  // allowed.
  float (*exp_shifted)(const float* x, uint32_t n, float scale, float* p);

  // ---- KV cache (inl/attention.inl.h)
  // Encodes one token's K and V rows ([num_kv_heads][head_dim] f32 each) into slot `slot` of `block` at `layer`. The
  // bytes are the same on every target. Returns how many values the codecs could not hold: those that were infinite or
  // NaN, and finite ones beyond the codec's range, which became infinite or its largest code.
  uint32_t (*store_kv)(const KvView& kv, uint32_t layer, BlockIndex block, uint32_t slot, const float* k,
                       const float* v);
  // Decodes them back to f32 (tests, diagnostics), whatever the bytes are.
  void (*load_kv)(const KvView& kv, uint32_t layer, BlockIndex block, uint32_t slot, float* k, float* v);
  // One tile of attention; returns the number of needed query-key products (masked and padded ones not counted).
  uint64_t (*attention_tile)(const AttentionTile& tile);
  // Merges the partial results that other tiles left of these rows, from split_begin on in the order of splits, and
  // writes the rows.
  void (*attention_merge)(const AttentionTile& tile);
};

}  // namespace kvern
