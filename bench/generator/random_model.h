// GGUF files with random weights in the shape of published models: what an engine does with them costs the same as with
// the real ones, so a model of any size and type mix can be measured without a download.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kvern/status.h"
#include "platform/file_system.h"
#include "tensor/dtype.h"

namespace kvern {

// A model of architecture "llama".
struct ModelShape {
  std::string_view name;
  std::string_view like;  // The published model.
  uint32_t num_layers, width, ffn_width;
  uint32_t num_heads, num_kv_heads, head_dim;
  uint32_t vocab_size;
  bool has_output;  // An output head of its own; else the embedding serves as one.
  float rope_base;
  uint32_t context_tokens;
};

// "a", "b", "c", and "tiny" for tests.
std::span<const ModelShape> ModelShapes();

// The type mixes of llama.cpp's quantiser that can be asked for: "Q4_0", "Q4_K_M", ...
std::span<const std::string_view> TypeMixes();

struct RandomTensor {
  std::string name;
  DType dtype;
  uint32_t num_inputs;
  uint32_t num_outputs;  // 1 for the vectors of norms.
  uint64_t num_bytes() const { return RowBytes(dtype, num_inputs) * num_outputs; }
};

// The tensors of a file in its order. `mix` is one of TypeMixes().
std::vector<RandomTensor> TensorsOf(const ModelShape& shape, std::string_view mix);

// Called with the bytes of weights done and their total; false ends the writing with kCancelled.
using WriteProgress = std::function<bool(uint64_t bytes_done, uint64_t bytes_total)>;

// Writes a complete file; the same arguments give the same bytes. Weights have the mean 0 and the variance
// 1 / num_inputs, so activations keep their size through the layers. The tokenizer is a byte-level BPE with a few
// merges; the rest of its vocabulary is never reached from text. On an error a partial file may stay.
Status WriteRandomModel(FileSystem& fs, const std::string& path, const ModelShape& shape, std::string_view mix,
                        uint64_t seed, const WriteProgress& progress);

}  // namespace kvern
