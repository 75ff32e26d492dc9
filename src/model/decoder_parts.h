// DecoderParts: the steps of a forward pass that decoders have in common, with the buffers they take them in. An
// architecture's file holds its weights and calls these in the order of its paper: llama.cc, gemma3.cc.
//
// Every worker of the step calls each part with its own Worker. A part may read what other workers wrote before the
// last barrier; barriers between parts are the caller's. M = rows of the batch.
#pragma once

#include <deque>
#include <initializer_list>
#include <span>
#include <vector>

#include "base/aligned_buffer.h"
#include "base/thread_pool.h"
#include "kernels/attention.h"
#include "model/model.h"
#include "model/packed_input.h"
#include "model/rope.h"
#include "model/step_buffers.h"

namespace kvern {

class DecoderParts {
 public:
  // How products reach the residual stream x.
  enum class Residual {
    kShared,     // ProjectHeads and ProjectFfn add theirs: each worker its own outputs.
    kPerWorker,  // AddNormed adds whole rows. In a small batch every worker does so to an x of its own, which costs
                 // less than a barrier.
  };
  using GateKernel = void (*)(const float* gate, const float* up, uint32_t n, float* out);

  // `config` and `head` must outlive the parts. attention_scale: usually 1 / sqrt(head_dim).
  DecoderParts(const ModelConfig& config, const PackedMatrix& head, Residual residual, float attention_scale,
               const ModelOptions& options);
  // Names the weights of a layer that later read a packed input; before the first Run.
  void AddReaders(std::initializer_list<const PackedMatrix*> of_normed, const PackedMatrix& of_heads,
                  const PackedMatrix& of_ffn);

  // Makes room for the batch and runs `step` on all workers.
  Result<ForwardStats> Run(const ForwardBatch& batch, FunctionRef<void(Worker&)> step);

  // ---- The parts, in the order in which a step takes them.
  // x = scale * embedding of each row's token; the angles of all positions.
  void Embed(const ForwardBatch& batch, const PackedMatrix& embedding, float scale, Worker& worker);
  // Shows x to the batch's observer, if there is one. The caller's next write to x comes after a barrier.
  void Observe(const ForwardBatch& batch, uint32_t layer, Worker& worker);
  // Packs n = norm(x) as the input of what follows; complete for this worker on return.
  void PackNormed(const std::vector<float>& norm, Worker& worker);
  // q = Wq n, k = Wk n, v = Wv n: their panels in one row, cut among the workers.
  void ProjectQkv(const PackedMatrix& wq, const PackedMatrix& wk, const PackedMatrix& wv, Worker& worker);
  // q = norm(q), k = norm(k), each head for itself. Touches the rows that StoreKv of the same worker goes on with.
  void NormHeads(const std::vector<float>& q_norm, const std::vector<float>& k_norm, Worker& worker);
  // Rotates q and k by their positions, and q for pinned slots as the span says; k and v go into their slots of the
  // cache.
  void StoreKv(const ForwardBatch& batch, uint32_t layer, Worker& worker);
  // heads = attention(q) over what the layer's group sees.
  void Attend(const ForwardBatch& batch, uint32_t layer, Worker& worker);
  // Wo heads: added to x, or y with Residual::kPerWorker.
  void ProjectHeads(const PackedMatrix& wo, Worker& worker);
  // x = x + norm(y). Touches the rows that PackNormed of the same worker goes on with.
  void AddNormed(const std::vector<float>& norm, Worker& worker);
  // act = gate_kernel(Wg n, Wu n); each worker goes on with its own columns up to the packed input of ProjectFfn.
  void ProjectGateAndUp(const PackedMatrix& wg, const PackedMatrix& wu, GateKernel gate_kernel, Worker& worker);
  // Wd act: added to x, or y with Residual::kPerWorker.
  void ProjectFfn(const PackedMatrix& wd, Worker& worker);
  // logits = head norm(x), of the rows that want them.
  void Head(const ForwardBatch& batch, const std::vector<float>& norm, std::span<float> logits, Worker& worker);

 private:
  // What the layers of one group share in a step.
  struct Group {
    explicit Group(const RopeConfig& rope);
    RopeAngles angles;
    RowBuffer cos, sin;  // [M][rope pairs]
    std::vector<float> pinned_cos,
        pinned_sin;  // [rope pairs] of the span's PinnedQueryPosition, where it has pinned slots
    AttentionPlan attention;
  };
  struct Out {
    float* data;
    size_t stride;
    bool accumulate;
  };

  Status Reserve(const ForwardBatch& batch);
  void ObserveAttention(const ForwardBatch& batch, uint32_t layer, bool is_rotated, Worker& worker);
  void FillAngles(const ForwardBatch& batch, Worker::Range rows);
  // Packs norm(x[rows[i]]), i < num_rows, as row i of `input`, then what the int8 form left of it as row num_rows + i
  // where there are two terms. `rows` empty: all in order.
  void PackNormed(const std::vector<float>& norm, uint32_t num_rows, std::span<const uint32_t> rows, uint32_t terms,
                  PackedInput& input, Worker& worker);
  // Panels [begin, end) of out = weights * input, or out + weights * input.
  void Product(const PackedMatrixView& weights, const PackedInput& input, uint32_t copy, uint32_t num_rows, Out out,
               Worker::Range panels, const Worker& worker);
  static Out Into(RowBuffer& rows) { return {rows.row(0), rows.stride(), /*accumulate=*/false}; }
  Out IntoResidual() { return has_own_residual() ? Into(y_) : Out{x_.row(0), x_.stride(), /*accumulate=*/true}; }

  bool has_own_residual() const { return residual_ == Residual::kPerWorker; }
  // A small batch is packed by every worker for itself: copies of inputs (PackedInput::kPrivateRows).
  static bool IsPrivate(uint32_t num_rows) { return num_rows <= PackedInput::kPrivateRows; }
  static uint32_t CopyOf(uint32_t num_rows, const Worker& worker) { return IsPrivate(num_rows) ? worker.index() : 0; }
  // The rows of x that this worker writes, and where it finds row `row`.
  Worker::Range ResidualRows(const Worker& worker) const {
    return has_own_residual() && IsPrivate(num_rows_) ? Worker::Range{0, num_rows_} : worker.Part(num_rows_);
  }
  float* X(uint64_t row, const Worker& worker) {
    return x_.row((has_own_residual() ? uint64_t{CopyOf(num_rows_, worker)} * num_rows_ : 0) + row);
  }

  const ModelConfig& config_;
  const PackedMatrix& head_;
  const Residual residual_;
  const float attention_scale_;
  const KernelTable& kernels_;
  ThreadPool& pool_;
  MemoryAllocator& allocator_;

  uint32_t num_rows_ = 0;     // M
  std::deque<Group> groups_;  // One per layer group; a plan cannot be moved.
  PackedInput width_input_;   // [M][width] normed residual stream
  PackedInput heads_input_;   // [M][num_heads * head_dim] attention output
  PackedInput ffn_input_;     // [M][ffn_width] act
  // [terms][logit rows][width]. With integer weights a row has two terms, its int8 form and that of what rounding left:
  // int8 alone would cost a quarter of the divergence of all int8 activations together (docs/results.md).
  PackedInput head_input_;
  const uint32_t head_terms_;
  RowBuffer x_;            // [M][width] residual stream; of a small batch with Residual::kPerWorker [workers][M][width]
  RowBuffer y_;            // [M][width] what is added to it, with Residual::kPerWorker
  RowBuffer q_;            // [M][num_heads][head_dim]
  RowBuffer q_pinned_;     // Likewise: the queries as pinned slots see them; where there are such
  RowBuffer k_, v_;        // [M][num_kv_heads][head_dim]
  RowBuffer heads_;        // [M][num_heads][head_dim]
  RowBuffer gate_, up_;    // [M][ffn_width]
  RowBuffer normed_;       // [workers][width]
  RowBuffer head_out_;     // [workers][terms][logit rows][outputs of some panels]
  AlignedBuffer scratch_;  // [workers][matmul scratch]
  size_t scratch_stride_ = 0;
  std::vector<uint64_t> products_;  // [workers] query-key products of this step
  std::vector<uint64_t> lost_;      // [workers] values of K and V that their codecs could not hold
};

}  // namespace kvern
