#include "engine/key_fields.h"

#include <utility>

#include "base/check.h"

namespace kvern {

KeyFields MakeKeyFields(const EngineOptions& options, const ModelConfig& model, const KvCacheSpec& spec,
                        std::string model_digest) {
  KVERN_CHECK(spec.groups.size() == model.layer_groups.size());
  KeyFields fields = {.model_digest = std::move(model_digest),
                      .activations = options.activations,
                      .k_type = options.cache.k_type,
                      .v_type = options.cache.v_type,
                      .block_size = options.cache.block_size,
                      .pinned = spec.pinned};
  for (size_t g = 0; g < spec.groups.size(); ++g) {
    const KvGroup& group = spec.groups[g];
    const KvShape& shape = group.layout.shape();
    const RopeConfig& rope = model.RopeOf(model.layer_groups[g]);
    fields.groups.push_back({.num_layers = shape.num_layers,
                             .num_kv_heads = shape.num_kv_heads,
                             .head_dim = shape.head_dim,
                             .rope = {rope.dim, rope.base, rope.linear_factor, rope.factors},
                             .window = group.window,
                             .sees_pinned = group.sees_pinned});
  }
  return fields;
}

}  // namespace kvern
