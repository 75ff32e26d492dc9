#include "model/llama.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "kernels/attention.h"
#include "kernels/scalar_math.h"
#include "model/packed_input.h"
#include "model/rope.h"
#include "model/step_buffers.h"
#include "model/weight_loader.h"

namespace kvern {
namespace {

constexpr uint32_t kHeadPanels = 32;  // Of the output head at a time.

struct LlamaLayer {
  std::vector<float> attn_norm;  // [width]
  PackedMatrix attn_q;           // width -> num_heads * head_dim; rows in the order that makes RoPE pairs adjacent
  PackedMatrix attn_k;           // width -> num_kv_heads * head_dim; the same
  PackedMatrix attn_v;           // width -> num_kv_heads * head_dim
  PackedMatrix attn_output;      // num_heads * head_dim -> width
  std::vector<float> ffn_norm;   // [width]
  PackedMatrix ffn_gate;         // width -> ffn_width
  PackedMatrix ffn_up;           // width -> ffn_width
  PackedMatrix ffn_down;         // ffn_width -> width
};

struct LlamaWeights {
  PackedMatrix token_embd;  // width -> vocab_size; serves as output head too where the file has none
  std::vector<LlamaLayer> layers;
  std::vector<float> output_norm;      // [width]
  std::optional<PackedMatrix> output;  // width -> vocab_size
  const PackedMatrix& head() const { return output ? *output : token_embd; }
};

Result<LlamaWeights> LoadWeights(const ModelConfig& config, WeightLoader& loader) {
  const uint32_t width = config.width;
  const uint32_t q_width = config.num_heads * config.head_dim;
  const uint32_t kv_width = config.num_kv_heads * config.head_dim;
  LlamaWeights weights;
  KVERN_ASSIGN_OR_RETURN(weights.token_embd, loader.Matrix("token_embd.weight", width, config.vocab_size));
  for (uint32_t i = 0; i < config.num_layers; ++i) {
    const std::string prefix = "blk." + std::to_string(i) + ".";
    LlamaLayer& layer = weights.layers.emplace_back();
    KVERN_ASSIGN_OR_RETURN(layer.attn_norm, loader.Vector(prefix + "attn_norm.weight", width));
    KVERN_ASSIGN_OR_RETURN(layer.attn_q, loader.Matrix(prefix + "attn_q.weight", width, q_width));
    KVERN_ASSIGN_OR_RETURN(layer.attn_k, loader.Matrix(prefix + "attn_k.weight", width, kv_width));
    KVERN_ASSIGN_OR_RETURN(layer.attn_v, loader.Matrix(prefix + "attn_v.weight", width, kv_width));
    KVERN_ASSIGN_OR_RETURN(layer.attn_output, loader.Matrix(prefix + "attn_output.weight", q_width, width));
    KVERN_ASSIGN_OR_RETURN(layer.ffn_norm, loader.Vector(prefix + "ffn_norm.weight", width));
    KVERN_ASSIGN_OR_RETURN(layer.ffn_gate, loader.Matrix(prefix + "ffn_gate.weight", width, config.ffn_width));
    KVERN_ASSIGN_OR_RETURN(layer.ffn_up, loader.Matrix(prefix + "ffn_up.weight", width, config.ffn_width));
    KVERN_ASSIGN_OR_RETURN(layer.ffn_down, loader.Matrix(prefix + "ffn_down.weight", config.ffn_width, width));
  }
  KVERN_ASSIGN_OR_RETURN(weights.output_norm, loader.Vector("output_norm.weight", width));
  if (loader.Has("output.weight")) {
    KVERN_ASSIGN_OR_RETURN(weights.output, loader.Matrix("output.weight", width, config.vocab_size));
  }
  return weights;
}

class Llama final : public Model {
 public:
  Llama(ModelConfig config, LlamaWeights weights, uint64_t weight_bytes, const ModelOptions& options)
      : config_(std::move(config)),
        weights_(std::move(weights)),
        weight_bytes_(weight_bytes),
        kernels_(*options.kernels),
        pool_(*options.pool),
        allocator_(*options.allocator),
        rope_(config_.rope),
        scale_(static_cast<float>(1.0 / std::sqrt(static_cast<double>(config_.head_dim)))),
        width_input_(kernels_, options.activations),
        heads_input_(kernels_, options.activations),
        ffn_input_(kernels_, options.activations),
        head_input_(kernels_, options.activations),
        head_terms_(head_input_.FormFor(weights_.head().view()) == ActivationForm::kInt8 ? 2 : 1),
        x_(config_.width),
        cos_(rope_.num_pairs()),
        sin_(rope_.num_pairs()),
        q_(config_.num_heads * config_.head_dim),
        k_(config_.num_kv_heads * config_.head_dim),
        v_(config_.num_kv_heads * config_.head_dim),
        heads_(config_.num_heads * config_.head_dim),
        gate_(config_.ffn_width),
        up_(config_.ffn_width),
        normed_(config_.width),
        head_out_(kHeadPanels * kPanelOutputs) {
    for (const LlamaLayer& layer : weights_.layers) {
      for (const PackedMatrix* m : {&layer.attn_q, &layer.attn_k, &layer.attn_v, &layer.ffn_gate, &layer.ffn_up}) {
        width_input_.AddReader(m->view());
      }
      heads_input_.AddReader(layer.attn_output.view());
      ffn_input_.AddReader(layer.ffn_down.view());
    }
    head_input_.AddReader(weights_.head().view());
  }

  const ModelConfig& config() const override { return config_; }
  uint64_t weight_bytes() const override { return weight_bytes_; }

  Result<ForwardStats> Forward(const ForwardBatch& batch, std::span<float> logits) override {
    KVERN_CHECK(logits.size() == batch.logit_rows.size() * config_.vocab_size);
    KVERN_RETURN_IF_ERROR(Reserve(batch));
    pool_.Run([&](Worker& worker) { Step(batch, logits, worker); });
    ForwardStats stats;
    stats.rows_computed = batch.tokens.size();
    for (uint64_t products : products_) stats.query_key_products += products;
    return stats;
  }

 private:
  Status Reserve(const ForwardBatch& batch);

  // ---- the step, run by every worker; M = rows of the batch
  void Step(const ForwardBatch& batch, std::span<float> logits, Worker& worker);
  void Embed(const ForwardBatch& batch, Worker& worker);
  void Attention(const ForwardBatch& batch, uint32_t layer, Worker& worker);
  void ObserveAttention(const ForwardBatch& batch, uint32_t layer, bool is_rotated, Worker& worker);
  void FeedForward(const LlamaLayer& layer, uint32_t num_rows, Worker& worker);
  void Head(const ForwardBatch& batch, std::span<float> logits, Worker& worker);

  // ---- pieces of it
  // Packs norm(x[rows[i]]), i < num_rows, as row i of `input`, then what the int8 form left of it as row num_rows + i
  // where there are two terms; complete for this worker on return. `rows` empty: all in order.
  void PackNormed(const std::vector<float>& norm, uint32_t num_rows, std::span<const uint32_t> rows, uint32_t terms,
                  PackedInput& input, Worker& worker);
  // Panels [begin, end) of out = weights * input, or out + weights * input.
  struct Out {
    float* data;
    size_t stride;
    bool accumulate;
  };
  void Product(const PackedMatrixView& weights, const PackedInput& input, uint32_t copy, uint32_t num_rows, Out out,
               Worker::Range panels, const Worker& worker);
  static Out Into(RowBuffer& rows) { return {rows.row(0), rows.stride(), /*accumulate=*/false}; }
  static Out Onto(RowBuffer& rows) { return {rows.row(0), rows.stride(), /*accumulate=*/true}; }
  // The copy of width_input_, heads_input_ and head_input_ that `worker` fills and reads (PackedInput::kPrivateRows).
  static uint32_t CopyOf(uint32_t num_rows, const Worker& worker) {
    return num_rows <= PackedInput::kPrivateRows ? worker.index() : 0;
  }

  const ModelConfig config_;
  const LlamaWeights weights_;
  const uint64_t weight_bytes_;
  const KernelTable& kernels_;
  ThreadPool& pool_;
  MemoryAllocator& allocator_;
  const RopeAngles rope_;
  const float scale_;  // 1 / sqrt(head_dim)

  AttentionPlan attention_;
  PackedInput width_input_;  // [M][width] normed residual stream
  PackedInput heads_input_;  // [M][num_heads * head_dim] attention output
  PackedInput ffn_input_;    // [M][ffn_width] silu(gate) * up
  // [terms][logit rows][width]. With integer weights a row has two terms, its int8 form and that of what rounding left:
  // int8 alone would cost a quarter of the divergence of all int8 activations together (docs/results.md).
  PackedInput head_input_;
  const uint32_t head_terms_;
  RowBuffer x_;            // [M][width] residual stream
  RowBuffer cos_, sin_;    // [M][rope pairs]
  RowBuffer q_;            // [M][num_heads][head_dim]
  RowBuffer k_, v_;        // [M][num_kv_heads][head_dim]
  RowBuffer heads_;        // [M][num_heads][head_dim]
  RowBuffer gate_, up_;    // [M][ffn_width]
  RowBuffer normed_;       // [workers][width]
  RowBuffer head_out_;     // [workers][terms][logit rows][outputs of kHeadPanels panels]
  AlignedBuffer scratch_;  // [workers][matmul scratch]
  size_t scratch_stride_ = 0;
  std::vector<uint64_t> products_;  // [workers] query-key products of this step
};

Status Llama::Reserve(const ForwardBatch& batch) {
  const auto num_rows = static_cast<uint32_t>(batch.tokens.size());
  const auto num_logit_rows = static_cast<uint32_t>(batch.logit_rows.size());
  const uint32_t num_workers = pool_.num_threads();
  for (RowBuffer* buffer : {&x_, &cos_, &sin_, &q_, &k_, &v_, &heads_, &gate_, &up_}) {
    KVERN_RETURN_IF_ERROR(buffer->Reserve(num_rows, allocator_));
  }
  for (PackedInput* input : {&width_input_, &heads_input_, &ffn_input_}) {
    KVERN_RETURN_IF_ERROR(input->Reserve(num_rows, num_workers, allocator_));
  }
  KVERN_RETURN_IF_ERROR(head_input_.Reserve(head_terms_ * num_logit_rows, num_workers, allocator_));
  KVERN_RETURN_IF_ERROR(head_out_.Reserve(num_workers * head_terms_ * num_logit_rows, allocator_));
  KVERN_RETURN_IF_ERROR(normed_.Reserve(num_workers, allocator_));
  if (scratch_.size() == 0) {
    scratch_stride_ = RoundUp(kernels_.matmul_scratch_bytes(), 64);
    KVERN_ASSIGN_OR_RETURN(scratch_, allocator_.Allocate(num_workers * scratch_stride_));
  }
  products_.assign(num_workers, 0);
  return attention_.Build(kernels_, batch.sequences, batch.shared_prefixes,
                          {config_.num_heads, config_.num_kv_heads, config_.head_dim}, num_workers, allocator_);
}

// In the order of the architecture. Barriers stand where one worker reads what another has written.
void Llama::Step(const ForwardBatch& batch, std::span<float> logits, Worker& worker) {
  const auto num_rows = static_cast<uint32_t>(batch.tokens.size());
  // The observer reads x while the other workers read it too: the next write comes after a barrier that all must pass.
  const auto observe = [&](uint32_t layer) {
    if (batch.observer != nullptr && worker.index() == 0) (*batch.observer)(layer, x_.row(0), x_.stride());
  };
  Embed(batch, worker);  // x = embedding of each row's token
  worker.Barrier();
  observe(0);
  for (uint32_t layer = 0; layer < config_.num_layers; ++layer) {
    Attention(batch, layer, worker);  // x += attn_output * attention(norm(x))
    worker.Barrier();
    FeedForward(weights_.layers[layer], num_rows, worker);  // x += ffn_down * (silu(gate) * up)
    worker.Barrier();
    observe(layer + 1);
  }
  if (!batch.logit_rows.empty()) Head(batch, logits, worker);  // logits = head * norm(x)
}

void Llama::Embed(const ForwardBatch& batch, Worker& worker) {
  const Worker::Range part = worker.Part(batch.tokens.size());
  for (uint64_t row = part.begin; row < part.end; ++row) {
    weights_.token_embd.DecodeRow(static_cast<uint32_t>(batch.tokens[row]), {x_.row(row), config_.width});
  }
  for (const SequenceRows& sequence : batch.sequences) {
    for (uint32_t i = 0; i < sequence.num_rows; ++i) {
      const uint64_t row = sequence.first_row + i;
      if (row < part.begin || row >= part.end) continue;
      rope_.Fill(sequence.first_position + i, {cos_.row(row), rope_.num_pairs()}, {sin_.row(row), rope_.num_pairs()});
    }
  }
}

void Llama::Attention(const ForwardBatch& batch, uint32_t layer_index, Worker& worker) {
  const LlamaLayer& layer = weights_.layers[layer_index];
  const auto num_rows = static_cast<uint32_t>(batch.tokens.size());
  PackNormed(layer.attn_norm, num_rows, {}, /*terms=*/1, width_input_, worker);

  // q = Wq n, k = Wk n, v = Wv n: their panels in one row, cut among the workers.
  struct Projection {
    const PackedMatrix& weights;
    RowBuffer& out;
  };
  const Projection projections[] = {{layer.attn_q, q_}, {layer.attn_k, k_}, {layer.attn_v, v_}};
  uint64_t num_panels = 0;
  for (const Projection& p : projections) num_panels += p.weights.view().num_panels();
  const Worker::Range part = worker.Part(num_panels, 2);
  uint64_t first = 0;
  for (const Projection& p : projections) {
    const uint64_t count = p.weights.view().num_panels();
    const uint64_t begin = std::clamp(part.begin, first, first + count) - first;
    const uint64_t end = std::clamp(part.end, first, first + count) - first;
    Product(p.weights.view(), width_input_, CopyOf(num_rows, worker), num_rows, Into(p.out), {begin, end}, worker);
    first += count;
  }
  worker.Barrier();
  if (batch.attention_observer != nullptr) {
    ObserveAttention(batch, layer_index, /*is_rotated=*/false, worker);
    worker.Barrier();  // The rows are rotated in place.
  }

  // Rotates q and k by their positions; k and v go into their slots of the cache.
  const Worker::Range rows = worker.Part(num_rows);
  for (const SequenceRows& sequence : batch.sequences) {
    const uint64_t begin = std::clamp<uint64_t>(rows.begin, sequence.first_row, sequence.first_row + sequence.num_rows);
    const uint64_t end = std::clamp<uint64_t>(rows.end, sequence.first_row, sequence.first_row + sequence.num_rows);
    for (uint64_t row = begin; row < end; ++row) {
      const float* cos = cos_.row(row);
      const float* sin = sin_.row(row);
      kernels_.rope_pairs(q_.row(row), config_.num_heads, config_.head_dim, config_.rope.dim, cos, sin);
      kernels_.rope_pairs(k_.row(row), config_.num_kv_heads, config_.head_dim, config_.rope.dim, cos, sin);
      const uint64_t position = sequence.first_position + (row - sequence.first_row);
      kernels_.store_kv(batch.kv[0], layer_index, sequence.block_tables[0][position / batch.kv[0].block_size],
                        static_cast<uint32_t>(position % batch.kv[0].block_size), k_.row(row), v_.row(row));
    }
  }
  worker.Barrier();
  if (batch.attention_observer != nullptr) ObserveAttention(batch, layer_index, /*is_rotated=*/true, worker);

  products_[worker.index()] += attention_.Run({.q = q_.row(0),
                                               .q_stride = q_.stride(),
                                               .out = heads_.row(0),
                                               .out_stride = heads_.stride(),
                                               .kv = batch.kv[0],
                                               .layer = layer_index,
                                               .num_heads = config_.num_heads,
                                               .scale = scale_},
                                              worker);
  worker.Barrier();

  // x += Wo heads
  const uint32_t heads_width = config_.num_heads * config_.head_dim;
  const bool is_private = num_rows <= PackedInput::kPrivateRows;
  const Worker::Range packed = is_private ? Worker::Range{0, num_rows} : worker.Part(num_rows);
  heads_input_.Pack(heads_.row(0), heads_.stride(), num_rows, heads_width, static_cast<uint32_t>(packed.begin),
                    static_cast<uint32_t>(packed.end), 0, heads_width, CopyOf(num_rows, worker));
  if (!is_private) worker.Barrier();
  Product(layer.attn_output.view(), heads_input_, CopyOf(num_rows, worker), num_rows, Onto(x_),
          worker.Part(layer.attn_output.view().num_panels(), 2), worker);
}

void Llama::ObserveAttention(const ForwardBatch& batch, uint32_t layer, bool is_rotated, Worker& worker) {
  if (worker.index() != 0) return;
  (*batch.attention_observer)({.layer = layer,
                               .is_rotated = is_rotated,
                               .q = q_.row(0),
                               .q_stride = q_.stride(),
                               .k = k_.row(0),
                               .v = v_.row(0),
                               .kv_stride = k_.stride(),
                               .scale = scale_});
}

void Llama::FeedForward(const LlamaLayer& layer, uint32_t num_rows, Worker& worker) {
  PackNormed(layer.ffn_norm, num_rows, {}, /*terms=*/1, width_input_, worker);

  // gate = Wg n, up = Wu n; each worker goes on with its own columns, whole groups of 32, up to the packed input of Wd.
  const Worker::Range panels = worker.Part(layer.ffn_gate.view().num_panels(), 2);
  Product(layer.ffn_gate.view(), width_input_, CopyOf(num_rows, worker), num_rows, Into(gate_), panels, worker);
  Product(layer.ffn_up.view(), width_input_, CopyOf(num_rows, worker), num_rows, Into(up_), panels, worker);
  const auto begin = static_cast<uint32_t>(std::min<uint64_t>(panels.begin * kPanelOutputs, config_.ffn_width));
  const auto end = static_cast<uint32_t>(std::min<uint64_t>(panels.end * kPanelOutputs, config_.ffn_width));
  if (begin < end) {
    for (uint32_t row = 0; row < num_rows; ++row) {
      float* gate = gate_.row(row) + begin;
      kernels_.swiglu(gate, up_.row(row) + begin, end - begin, gate);
    }
    ffn_input_.Pack(gate_.row(0), gate_.stride(), num_rows, config_.ffn_width, 0, num_rows, begin, end, /*copy=*/0);
  }
  worker.Barrier();

  // x += Wd (silu(gate) * up)
  Product(layer.ffn_down.view(), ffn_input_, /*copy=*/0, num_rows, Onto(x_),
          worker.Part(layer.ffn_down.view().num_panels(), 2), worker);
}

void Llama::Head(const ForwardBatch& batch, std::span<float> logits, Worker& worker) {
  const auto num_rows = static_cast<uint32_t>(batch.logit_rows.size());
  const uint32_t num_terms = head_terms_ * num_rows;
  PackNormed(weights_.output_norm, num_rows, batch.logit_rows, head_terms_, head_input_, worker);
  // Some panels at a time, so that the terms of their logits are added while they are in cache.
  const Worker::Range part = worker.Part(weights_.head().view().num_panels(), 2);
  const uint64_t first_term = uint64_t{worker.index()} * num_terms;
  const Out out = {head_out_.row(first_term), head_out_.stride(), /*accumulate=*/false};
  for (uint64_t panel = part.begin; panel < part.end; panel += kHeadPanels) {
    const uint64_t panel_end = std::min<uint64_t>(panel + kHeadPanels, part.end);
    const PackedMatrixView weights =
        weights_.head().view().Panels(static_cast<uint32_t>(panel), static_cast<uint32_t>(panel_end));
    Product(weights, head_input_, CopyOf(num_terms, worker), num_terms, out, {0, weights.num_panels()}, worker);
    const uint64_t begin = panel * kPanelOutputs;
    const uint64_t count = weights.num_outputs;
    for (uint32_t row = 0; row < num_rows; ++row) {
      const float* const term = head_out_.row(first_term + row);
      float* const row_logits = &logits[row * uint64_t{config_.vocab_size} + begin];
      if (head_terms_ == 1) {
        std::copy_n(term, count, row_logits);
      } else {
        const float* const residual = head_out_.row(first_term + num_rows + row);
        for (uint64_t i = 0; i < count; ++i) row_logits[i] = term[i] + residual[i];
      }
    }
  }
}

void Llama::PackNormed(const std::vector<float>& norm, uint32_t num_rows, std::span<const uint32_t> rows,
                       uint32_t terms, PackedInput& input, Worker& worker) {
  const uint32_t num_packed = terms * num_rows;
  const bool is_private = num_packed <= PackedInput::kPrivateRows;
  const Worker::Range part = is_private ? Worker::Range{0, num_rows} : worker.Part(num_rows);
  float* const normed = normed_.row(worker.index());
  for (uint64_t i = part.begin; i < part.end; ++i) {
    kernels_.rms_norm(x_.row(rows.empty() ? i : rows[i]), norm.data(), config_.width, config_.norm_eps, normed);
    for (uint32_t term = 0; term < terms; ++term) {
      if (term > 0) kernels_.int8_residual(normed, config_.width, normed);
      const auto row = static_cast<uint32_t>(term * num_rows + i);
      input.Pack(normed, /*x_stride=*/0, num_packed, config_.width, row, row + 1, 0, config_.width,
                 CopyOf(num_packed, worker));
    }
  }
  if (!is_private) worker.Barrier();
}

void Llama::Product(const PackedMatrixView& weights, const PackedInput& input, uint32_t copy, uint32_t num_rows,
                    Out out, Worker::Range panels, const Worker& worker) {
  if (panels.begin >= panels.end) return;
  const ActivationForm form = input.FormFor(weights);
  kernels_.matmul({.weights = weights,
                   .form = form,
                   .activations = input.data(form, copy),
                   .num_rows = num_rows,
                   .out = out.data,
                   .out_stride = out.stride,
                   .accumulate = out.accumulate,
                   .panel_begin = static_cast<uint32_t>(panels.begin),
                   .panel_end = static_cast<uint32_t>(panels.end),
                   .scratch = scratch_.data() + worker.index() * scratch_stride_});
}

}  // namespace

Result<std::unique_ptr<Model>> LoadLlama(const GgufFile& file, const ModelOptions& options) {
  KVERN_ASSIGN_OR_RETURN(ModelConfig config, ReadModelConfig(file));
  WeightLoader loader(file, options);
  if (loader.Has("rope_freqs.weight")) {
    KVERN_ASSIGN_OR_RETURN(config.rope.factors, loader.Vector("rope_freqs.weight", config.rope.dim / 2));
  }
  KVERN_ASSIGN_OR_RETURN(LlamaWeights weights, LoadWeights(config, loader));
  KVERN_RETURN_IF_ERROR(loader.CheckAllTaken());
  return std::unique_ptr<Model>(
      std::make_unique<Llama>(std::move(config), std::move(weights), loader.packed_bytes(), options));
}

}  // namespace kvern
