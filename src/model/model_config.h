// ModelConfig: the shape of a model, read from GGUF metadata and checked.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "gguf/gguf_file.h"
#include "kvern/status.h"

namespace kvern {

struct RopeConfig {
  uint32_t dim = 0;  // Dims of a head that are rotated; even.
  double base = 10000.0;
  double linear_factor = 1.0;  // Positions are divided by it (scaling type "linear").
  std::vector<float> factors;  // `rope_freqs.weight`: dim / 2 divisors of the frequencies, or empty.
};

// Layers that see the same span and share their block tables.
struct LayerGroup {
  uint32_t window = 0;  // Tokens that a row sees, its own included; 0: all.
  uint32_t num_layers = 0;
};

// Where the keys and values of a layer stand.
struct LayerPlace {
  uint32_t group = 0;
  uint32_t index = 0;  // Among the layers of the group.
};

struct ModelConfig {
  std::string architecture;
  uint32_t num_layers = 0;
  uint32_t width = 0;
  uint32_t ffn_width = 0;
  uint32_t num_heads = 0;
  uint32_t num_kv_heads = 0;  // Divides num_heads.
  uint32_t head_dim = 0;      // A multiple of 16, at most 256.
  uint32_t vocab_size = 0;
  uint32_t context_tokens = 0;
  float norm_eps = 0;
  RopeConfig rope;                       // Of the layers that see all.
  RopeConfig window_rope;                // Of the layers that have a window, where there are any.
  std::vector<LayerGroup> layer_groups;  // 1 to kMaxLayerGroups; those that see all come first.
  std::vector<LayerPlace> layer_places;  // One per layer.

  const RopeConfig& RopeOf(const LayerGroup& group) const { return group.window == 0 ? rope : window_rope; }
};

// `general.architecture`, where it is one that LoadModel knows; kUnsupported for any other (lists the known ones).
Result<std::string> ReadArchitecture(const GgufFile& file);

// Reads the keys of the file's architecture. Every limit that later code relies on is checked here: kCorruption or
// kUnsupported names the key, what was found and what was expected.
Result<ModelConfig> ReadModelConfig(const GgufFile& file);

}  // namespace kvern
