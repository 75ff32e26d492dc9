// ModelInfo: what a model file holds, read without loading its weights.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "kvern/options.h"
#include "kvern/status.h"

namespace kvern {

struct TensorTypeInfo {
  std::string type;  // "Q4_1"
  uint64_t num_tensors = 0;
  uint64_t num_bytes = 0;
  bool is_supported = false;
};

// Layers that see the same span of tokens and share their blocks.
struct LayerGroupInfo {
  uint32_t num_layers = 0;
  uint32_t window_tokens = 0;  // 0: all.
  double rope_base = 0;
};

struct ModelInfo {
  std::string path;
  uint64_t file_bytes = 0;
  std::string architecture;  // "llama", "gemma3"
  std::string name;          // general.name, or "".
  bool is_supported =
      false;  // kvern can run it; otherwise unsupported_reason says why not and the shapes below may be 0.
  std::string unsupported_reason;
  uint32_t num_layers = 0;
  uint32_t width = 0;  // Embedding length.
  uint32_t ffn_width = 0;
  uint32_t num_heads = 0;
  uint32_t num_kv_heads = 0;
  uint32_t head_dim = 0;
  uint32_t vocab_size = 0;
  uint32_t context_tokens = 0;               // That the model was trained for.
  double rope_base = 0;                      // Of the first layer group.
  std::vector<LayerGroupInfo> layer_groups;  // Those that see all come first.
  uint64_t num_parameters = 0;
  std::vector<TensorTypeInfo> tensor_types;
  std::vector<std::pair<std::string, std::string>>
      metadata;  // Every key in file order; long values shortened for people.

  // What ChatTemplate::Parse takes; "" where the file has none.
  std::string chat_template;
  // Further templates of the file by name: "tool_use", "rag".
  std::vector<std::pair<std::string, std::string>> more_chat_templates;

  // Bytes of K and V of one token over all layers, scales included; 0 where heads of this size cannot be stored so.
  uint64_t KvBytesPerToken(KvType k_type, KvType v_type) const;
  // Bytes of the blocks of a sequence of `num_tokens` tokens: layers with a window hold the blocks that it may reach
  // into, and the one being filled.
  uint64_t KvBytesOfSequence(uint64_t num_tokens, uint32_t block_size, KvType k_type, KvType v_type) const;
};

// Every way to store K or V that this build has, in the order of KvType.
std::vector<KvType> AllKvTypes();

// kNotFound, kIoError or kCorruption where the file cannot be read as GGUF. A well-formed file of an unknown
// architecture is described with is_supported = false.
Result<ModelInfo> InspectModel(const std::string& path);

}  // namespace kvern
