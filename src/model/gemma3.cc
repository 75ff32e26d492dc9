#include "model/gemma3.h"

#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "model/config_keys.h"
#include "model/decoder_parts.h"
#include "model/weight_loader.h"

namespace kvern {
namespace {

constexpr uint32_t kDefaultPattern = 6;    // Every so many layers the last one sees all.
constexpr uint32_t kLayersOfLargest = 62;  // Gemma 3 27B, whose attention has a scale of its own.

struct Gemma3Layer {
  std::vector<float> attn_norm;            // [width]
  PackedMatrix attn_q;                     // width -> num_heads * head_dim; rows in the order that makes pairs adjacent
  PackedMatrix attn_k;                     // width -> num_kv_heads * head_dim; the same
  PackedMatrix attn_v;                     // width -> num_kv_heads * head_dim
  std::vector<float> attn_q_norm;          // [head_dim], in the order of attn_q
  std::vector<float> attn_k_norm;          // [head_dim], likewise
  PackedMatrix attn_output;                // num_heads * head_dim -> width
  std::vector<float> post_attention_norm;  // [width]
  std::vector<float> ffn_norm;             // [width]
  PackedMatrix ffn_gate;                   // width -> ffn_width
  PackedMatrix ffn_up;                     // width -> ffn_width
  PackedMatrix ffn_down;                   // ffn_width -> width
  std::vector<float> post_ffw_norm;        // [width]
};

// Norm weights are stored as they multiply: the file's converter has added the 1 of the paper's formula.
struct Gemma3Weights {
  PackedMatrix token_embd;  // width -> vocab_size; the output head too
  std::vector<Gemma3Layer> layers;
  std::vector<float> output_norm;  // [width]
};

Result<Gemma3Weights> LoadWeights(const ModelConfig& config, WeightLoader& loader) {
  const uint32_t width = config.width;
  const uint32_t head_dim = config.head_dim;
  const uint32_t q_width = config.num_heads * head_dim;
  const uint32_t kv_width = config.num_kv_heads * head_dim;
  const uint32_t rope_dim = config.rope.dim;
  Gemma3Weights weights;
  KVERN_ASSIGN_OR_RETURN(weights.token_embd, loader.Matrix("token_embd.weight", width, config.vocab_size));
  for (uint32_t i = 0; i < config.num_layers; ++i) {
    const std::string prefix = "blk." + std::to_string(i) + ".";
    Gemma3Layer& layer = weights.layers.emplace_back();
    KVERN_ASSIGN_OR_RETURN(layer.attn_norm, loader.Vector(prefix + "attn_norm.weight", width));
    KVERN_ASSIGN_OR_RETURN(layer.attn_q,
                           loader.MatrixWithPairedRows(prefix + "attn_q.weight", width, q_width, head_dim, rope_dim));
    KVERN_ASSIGN_OR_RETURN(layer.attn_k,
                           loader.MatrixWithPairedRows(prefix + "attn_k.weight", width, kv_width, head_dim, rope_dim));
    KVERN_ASSIGN_OR_RETURN(layer.attn_v, loader.Matrix(prefix + "attn_v.weight", width, kv_width));
    KVERN_ASSIGN_OR_RETURN(layer.attn_q_norm, loader.VectorInPairs(prefix + "attn_q_norm.weight", head_dim, rope_dim));
    KVERN_ASSIGN_OR_RETURN(layer.attn_k_norm, loader.VectorInPairs(prefix + "attn_k_norm.weight", head_dim, rope_dim));
    KVERN_ASSIGN_OR_RETURN(layer.attn_output, loader.Matrix(prefix + "attn_output.weight", q_width, width));
    KVERN_ASSIGN_OR_RETURN(layer.post_attention_norm, loader.Vector(prefix + "post_attention_norm.weight", width));
    KVERN_ASSIGN_OR_RETURN(layer.ffn_norm, loader.Vector(prefix + "ffn_norm.weight", width));
    KVERN_ASSIGN_OR_RETURN(layer.ffn_gate, loader.Matrix(prefix + "ffn_gate.weight", width, config.ffn_width));
    KVERN_ASSIGN_OR_RETURN(layer.ffn_up, loader.Matrix(prefix + "ffn_up.weight", width, config.ffn_width));
    KVERN_ASSIGN_OR_RETURN(layer.ffn_down, loader.Matrix(prefix + "ffn_down.weight", config.ffn_width, width));
    KVERN_ASSIGN_OR_RETURN(layer.post_ffw_norm, loader.Vector(prefix + "post_ffw_norm.weight", width));
  }
  KVERN_ASSIGN_OR_RETURN(weights.output_norm, loader.Vector("output_norm.weight", width));
  return weights;
}

// Queries are scaled by 1 / sqrt(head_dim), in the largest model by 1 / sqrt(width / num_heads); the file does not say.
float AttentionScale(const ModelConfig& config) {
  const double size = config.num_layers == kLayersOfLargest ? static_cast<double>(config.width) / config.num_heads
                                                            : static_cast<double>(config.head_dim);
  return static_cast<float>(1.0 / std::sqrt(size));
}

class Gemma3 final : public Model {
 public:
  Gemma3(ModelConfig config, Gemma3Weights weights, uint64_t weight_bytes, const ModelOptions& options)
      : config_(std::move(config)),
        weights_(std::move(weights)),
        weight_bytes_(weight_bytes),
        kernels_(*options.kernels),
        embedding_scale_(static_cast<float>(std::sqrt(static_cast<double>(config_.width)))),
        parts_(config_, weights_.token_embd, DecoderParts::Residual::kPerWorker, AttentionScale(config_), options) {
    for (const Gemma3Layer& layer : weights_.layers) {
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
    parts_.Embed(batch, weights_.token_embd, embedding_scale_, worker);  // x = sqrt(width) * embedding
    parts_.Observe(batch, 0, worker);
    for (uint32_t i = 0; i < config_.num_layers; ++i) {
      const Gemma3Layer& layer = weights_.layers[i];
      parts_.PackNormed(layer.attn_norm, worker);                           // n = norm(x)
      parts_.ProjectQkv(layer.attn_q, layer.attn_k, layer.attn_v, worker);  // q, k, v = Wq n, Wk n, Wv n
      worker.Barrier();
      parts_.NormHeads(layer.attn_q_norm, layer.attn_k_norm, worker);  // q, k = norm(q), norm(k) of each head
      parts_.StoreKv(batch, i, worker);                                // q, k rotated; k, v to the cache
      worker.Barrier();
      parts_.Attend(batch, i, worker);  // heads = attention(q)
      worker.Barrier();
      parts_.ProjectHeads(layer.attn_output, worker);  // y = Wo heads
      worker.Barrier();
      parts_.AddNormed(layer.post_attention_norm, worker);                            // x += norm(y)
      parts_.PackNormed(layer.ffn_norm, worker);                                      // n = norm(x)
      parts_.ProjectGateAndUp(layer.ffn_gate, layer.ffn_up, kernels_.geglu, worker);  // act = gelu(Wg n) * (Wu n)
      worker.Barrier();
      parts_.ProjectFfn(layer.ffn_down, worker);  // y = Wd act
      worker.Barrier();
      parts_.AddNormed(layer.post_ffw_norm, worker);  // x += norm(y)
      parts_.Observe(batch, i + 1, worker);
    }
    if (batch.logit_rows.empty()) return;
    worker.Barrier();
    parts_.Head(batch, weights_.output_norm, logits, worker);  // logits = token_embd norm(x)
  }

  const ModelConfig config_;
  const Gemma3Weights weights_;
  const uint64_t weight_bytes_;
  const KernelTable& kernels_;
  const float embedding_scale_;  // sqrt(width)
  DecoderParts parts_;
};

}  // namespace

Result<ModelConfig> ReadGemma3Config(const GgufFile& file) {
  KVERN_ASSIGN_OR_RETURN(ModelConfig config, ReadDecoderConfig(file));
  const ConfigKeys keys(file, config.architecture);
  for (const char* suffix : {"attn_logit_softcapping", "final_logit_softcapping"}) {
    KVERN_ASSIGN_OR_RETURN(const double cap, keys.FloatOr(suffix, 0));
    if (cap != 0) return keys.Unsupported(suffix, std::to_string(cap), "Gemma 3 without soft caps, as it is published");
  }
  KVERN_ASSIGN_OR_RETURN(const uint32_t window, keys.Positive("attention.sliding_window", kMaxContextTokens));
  KVERN_ASSIGN_OR_RETURN(const uint32_t pattern,
                         keys.PositiveOr("attention.sliding_window_pattern", kDefaultPattern, kMaxContextTokens));
  // Positions are scaled for the layers that see all only; the others never see far.
  config.window_rope.dim = config.rope.dim;
  KVERN_ASSIGN_OR_RETURN(config.window_rope.base, ReadRopeBase(keys, "rope.freq_base_swa"));

  LayerGroup full = {.window = 0}, local = {.window = window};
  const uint32_t local_group = config.num_layers < pattern ? 0 : 1;
  for (uint32_t i = 0; i < config.num_layers; ++i) {
    const bool is_full = (i + 1) % pattern == 0;
    config.layer_places[i] = is_full ? LayerPlace{0, full.num_layers++} : LayerPlace{local_group, local.num_layers++};
  }
  config.layer_groups.clear();
  for (const LayerGroup& group : {full, local}) {
    if (group.num_layers != 0) config.layer_groups.push_back(group);
  }
  return config;
}

Result<std::unique_ptr<Model>> LoadGemma3(const GgufFile& file, const ModelOptions& options) {
  KVERN_ASSIGN_OR_RETURN(ModelConfig config, ReadGemma3Config(file));
  WeightLoader loader(file, options);
  KVERN_ASSIGN_OR_RETURN(Gemma3Weights weights, LoadWeights(config, loader));
  KVERN_RETURN_IF_ERROR(loader.CheckAllTaken());
  return std::unique_ptr<Model>(
      std::make_unique<Gemma3>(std::move(config), std::move(weights), loader.packed_bytes(), options));
}

}  // namespace kvern
