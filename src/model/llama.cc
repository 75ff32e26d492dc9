#include "model/llama.h"

#include <cmath>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "model/config_keys.h"
#include "model/decoder_parts.h"
#include "model/weight_loader.h"

namespace kvern {
namespace {

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
        parts_(config_, weights_.head(), DecoderParts::Residual::kShared,
               static_cast<float>(1.0 / std::sqrt(static_cast<double>(config_.head_dim))), options) {
    for (const LlamaLayer& layer : weights_.layers) {
      parts_.AddReaders({&layer.attn_q, &layer.attn_k, &layer.attn_v, &layer.ffn_gate, &layer.ffn_up},
                        layer.attn_output, layer.ffn_down);
    }
  }

  const ModelConfig& config() const override { return config_; }
  uint64_t weight_bytes() const override { return weight_bytes_; }

  Result<ForwardStats> Forward(const ForwardBatch& batch, std::span<float> logits) override {
    KVERN_CHECK(logits.size() == batch.logit_rows.size() * config_.vocab_size);
    return parts_.Run(batch, [&](Worker& worker) { Step(batch, logits, worker); });
  }

 private:
  // Run by every worker. Barriers stand where one worker reads what another has written.
  void Step(const ForwardBatch& batch, std::span<float> logits, Worker& worker) {
    parts_.Embed(batch, weights_.token_embd, /*scale=*/1, worker);  // x = embedding of each row's token
    worker.Barrier();
    parts_.Observe(batch, 0, worker);
    for (uint32_t i = 0; i < config_.num_layers; ++i) {
      const LlamaLayer& layer = weights_.layers[i];
      parts_.PackNormed(layer.attn_norm, worker);                           // n = norm(x)
      parts_.ProjectQkv(layer.attn_q, layer.attn_k, layer.attn_v, worker);  // q, k, v = Wq n, Wk n, Wv n
      worker.Barrier();
      parts_.StoreKv(batch, i, worker);  // q, k rotated; k, v to the cache
      worker.Barrier();
      parts_.Attend(batch, i, worker);  // heads = attention(q)
      worker.Barrier();
      parts_.ProjectHeads(layer.attn_output, worker);  // x += Wo heads
      worker.Barrier();
      parts_.PackNormed(layer.ffn_norm, worker);                                       // n = norm(x)
      parts_.ProjectGateAndUp(layer.ffn_gate, layer.ffn_up, kernels_.swiglu, worker);  // act = silu(Wg n) * (Wu n)
      worker.Barrier();
      parts_.ProjectFfn(layer.ffn_down, worker);  // x += Wd act
      worker.Barrier();
      parts_.Observe(batch, i + 1, worker);
    }
    if (!batch.logit_rows.empty()) parts_.Head(batch, weights_.output_norm, logits, worker);  // logits = head norm(x)
  }

  const ModelConfig config_;
  const LlamaWeights weights_;
  const uint64_t weight_bytes_;
  const KernelTable& kernels_;
  DecoderParts parts_;
};

}  // namespace

Result<ModelConfig> ReadLlamaConfig(const GgufFile& file) { return ReadDecoderConfig(file); }

Result<std::unique_ptr<Model>> LoadLlama(const GgufFile& file, const ModelOptions& options) {
  KVERN_ASSIGN_OR_RETURN(ModelConfig config, ReadLlamaConfig(file));
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
