// TinyModel: small random models, as GGUF bytes and loaded, for tests that need no download.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/thread_pool.h"
#include "gguf/gguf_file.h"
#include "gguf/gguf_writer.h"
#include "model/model.h"
#include "tensor/dtype.h"

namespace kvern {

struct TinyModelSpec {
  std::string architecture = "llama";  // Or "gemma3", which has no output head of its own and no RoPE factors.
  uint32_t num_layers = 2;
  uint32_t width = 64;      // A multiple of the block of `dtype`.
  uint32_t ffn_width = 96;  // Likewise.
  uint32_t num_heads = 4;
  uint32_t num_kv_heads = 2;
  uint32_t head_dim = 32;
  uint32_t vocab_size = 71;  // No multiple of 16: the last panel is partial.
  uint32_t context_tokens = 4096;
  DType dtype = DType::kQ4_1;       // Of the matrices of the layers.
  DType embd_dtype = DType::kQ8_0;  // Of the embedding.
  bool has_output = false;          // An output head of its own instead of a tied one.
  bool has_rope_factors = false;
  double rope_linear_factor = 1.0;
  uint32_t window = 32;         // gemma3: of all layers but every `window_pattern`th.
  uint32_t window_pattern = 2;  // gemma3
  bool has_tokenizer = false;  // Byte-level BPE: token i < 256 is byte i, no merges; needs a vocabulary of 256 or more.
  uint64_t seed = 1;
  std::string ToString() const;
};

// A complete file.
std::vector<uint8_t> TinyModelBytes(const TinyModelSpec& spec);

// GgufFile over bytes in memory.
GgufFile OpenTinyModel(const TinyModelSpec& spec);

// The model, loaded for one target with a pool of its own.
struct LoadedTinyModel {
  std::unique_ptr<ThreadPool> pool;
  std::unique_ptr<Model> model;
};
LoadedTinyModel LoadTinyModel(const TinyModelSpec& spec, const KernelTable& kernels, uint32_t num_threads,
                              ActivationMode activations = ActivationMode::kInt8);

// `count` ids below `vocab_size`, the same for the same seed.
std::vector<TokenId> RandomTokens(uint32_t count, uint32_t vocab_size, uint64_t seed);

}  // namespace kvern
