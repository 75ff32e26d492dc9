#include "model/model_config.h"

#include <string_view>

#include "model/config_keys.h"

namespace kvern {
namespace {

// Far beyond any model; they keep every product of two of them inside 64 bits and every buffer size sane.
constexpr uint64_t kMaxLayers = 4096;
constexpr uint64_t kMaxWidth = 1 << 20;
constexpr uint64_t kMaxHeads = 4096;
constexpr uint64_t kMaxVocab = 1 << 24;
constexpr uint32_t kHeadDimUnit = 16;  // Lanes of a vector.
constexpr uint32_t kMaxHeadDim = 256;

Result<RopeConfig> ReadRope(const ConfigKeys& keys, uint32_t head_dim) {
  RopeConfig rope;
  KVERN_ASSIGN_OR_RETURN(rope.dim, keys.PositiveOr("rope.dimension_count", head_dim, kMaxHeadDim));
  if (rope.dim % 2 != 0 || rope.dim > head_dim) {
    return keys.Wrong("rope.dimension_count", std::to_string(rope.dim),
                      "an even number up to the head size " + std::to_string(head_dim));
  }
  KVERN_ASSIGN_OR_RETURN(rope.base, ReadRopeBase(keys, "rope.freq_base"));
  KVERN_ASSIGN_OR_RETURN(const std::string_view scaling, keys.StringOr("rope.scaling.type", "none"));
  if (scaling == "linear") {
    KVERN_ASSIGN_OR_RETURN(rope.linear_factor, keys.FloatOr("rope.scaling.factor", 1.0));
    if (!(rope.linear_factor >= 1e-3 && rope.linear_factor <= 1e6)) {
      return keys.Wrong("rope.scaling.factor", std::to_string(rope.linear_factor), "0.001 to 1e6");
    }
  } else if (scaling != "none") {
    return keys.Unsupported("rope.scaling.type", QuotedForMessage(scaling), "none and linear");
  }
  return rope;
}

}  // namespace

Result<double> ReadRopeBase(const ConfigKeys& keys, std::string_view suffix) {
  KVERN_ASSIGN_OR_RETURN(const double base, keys.FloatOr(suffix, RopeConfig().base));
  if (!(base >= 1 && base <= 1e12)) return keys.Wrong(suffix, std::to_string(base), "1 to 1e12");
  return base;
}

Result<ModelConfig> ReadDecoderConfig(const GgufFile& file) {
  ModelConfig config;
  KVERN_ASSIGN_OR_RETURN(config.architecture, ReadArchitecture(file));
  const ConfigKeys keys(file, config.architecture);
  KVERN_ASSIGN_OR_RETURN(config.num_layers, keys.Positive("block_count", kMaxLayers));
  KVERN_ASSIGN_OR_RETURN(config.width, keys.Positive("embedding_length", kMaxWidth));
  KVERN_ASSIGN_OR_RETURN(config.context_tokens, keys.Positive("context_length", kMaxContextTokens));
  KVERN_ASSIGN_OR_RETURN(config.ffn_width, keys.SameInAllLayers("feed_forward_length", config.num_layers, kMaxWidth));
  KVERN_ASSIGN_OR_RETURN(config.num_heads, keys.SameInAllLayers("attention.head_count", config.num_layers, kMaxHeads));
  config.num_kv_heads = config.num_heads;
  if (keys.Has("attention.head_count_kv")) {
    KVERN_ASSIGN_OR_RETURN(config.num_kv_heads,
                           keys.SameInAllLayers("attention.head_count_kv", config.num_layers, kMaxHeads));
  }
  if (config.num_heads % config.num_kv_heads != 0) {
    return keys.Wrong("attention.head_count_kv", std::to_string(config.num_kv_heads),
                      "a divisor of attention.head_count " + std::to_string(config.num_heads));
  }

  if (!keys.Has("attention.key_length") && config.width % config.num_heads != 0) {
    return keys.Wrong("embedding_length", std::to_string(config.width),
                      "a multiple of attention.head_count " + std::to_string(config.num_heads) +
                          " where attention.key_length is absent");
  }
  KVERN_ASSIGN_OR_RETURN(config.head_dim,
                         keys.PositiveOr("attention.key_length", config.width / config.num_heads, kMaxWidth));
  if (config.head_dim % kHeadDimUnit != 0 || config.head_dim > kMaxHeadDim) {
    return keys.Unsupported("attention.key_length", std::to_string(config.head_dim),
                            "multiples of 16 up to " + std::to_string(kMaxHeadDim));
  }
  KVERN_ASSIGN_OR_RETURN(const uint32_t value_length,
                         keys.PositiveOr("attention.value_length", config.head_dim, kMaxWidth));
  if (value_length != config.head_dim) {
    return keys.Unsupported("attention.value_length", std::to_string(value_length),
                            "values as long as keys, " + std::to_string(config.head_dim));
  }
  if (keys.Has("expert_count")) {
    KVERN_ASSIGN_OR_RETURN(const uint64_t experts, file.GetUint(keys.Name("expert_count")));
    if (experts > 0) return keys.Unsupported("expert_count", std::to_string(experts), "models without experts");
  }

  KVERN_ASSIGN_OR_RETURN(const double eps, file.GetFloat(keys.Name("attention.layer_norm_rms_epsilon")));
  if (!(eps >= 0 && eps <= 1)) {
    return keys.Wrong("attention.layer_norm_rms_epsilon", std::to_string(eps), "0 to 1");
  }
  config.norm_eps = static_cast<float>(eps);
  KVERN_ASSIGN_OR_RETURN(config.rope, ReadRope(keys, config.head_dim));

  // The embedding says how many tokens the model knows; the tokenizer is compared with it where both meet.
  const GgufTensorInfo* embedding = file.FindTensor("token_embd.weight");
  if (embedding == nullptr) return Status::Corruption(file.path() + ": tensor token_embd.weight is missing");
  if (embedding->dims[1] == 0 || embedding->dims[1] > kMaxVocab) {
    return Status::Corruption(file.path() + ": tensor token_embd.weight has " + std::to_string(embedding->dims[1]) +
                              " rows, expected 1 to " + std::to_string(kMaxVocab));
  }
  config.vocab_size = static_cast<uint32_t>(embedding->dims[1]);
  config.layer_groups = {{.window = 0, .num_layers = config.num_layers}};
  for (uint32_t layer = 0; layer < config.num_layers; ++layer) config.layer_places.push_back({0, layer});
  return config;
}

}  // namespace kvern
