#include "bench/generator/random_model.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <memory>
#include <utility>

#include "base/check.h"
#include "base/xorshift.h"
#include "gguf/gguf_writer.h"
#include "tensor/quant_formats.h"
#include "tokenizer/byte_alphabet.h"
#include "tokenizer/vocab.h"

namespace kvern {
namespace {

constexpr ModelShape kShapes[] = {
    {.name = "a",
     .like = "SmolLM2-135M",
     .num_layers = 30,
     .width = 576,
     .ffn_width = 1536,
     .num_heads = 9,
     .num_kv_heads = 3,
     .head_dim = 64,
     .vocab_size = 49'152,
     .has_output = false,
     .rope_base = 1e5f,
     .context_tokens = 32'768},
    {.name = "b",
     .like = "Llama-3.2-1B",
     .num_layers = 16,
     .width = 2048,
     .ffn_width = 8192,
     .num_heads = 32,
     .num_kv_heads = 8,
     .head_dim = 64,
     .vocab_size = 128'256,
     .has_output = false,
     .rope_base = 5e5f,
     .context_tokens = 32'768},
    {.name = "c",
     .like = "Llama-3.1-8B",
     .num_layers = 32,
     .width = 4096,
     .ffn_width = 14'336,
     .num_heads = 32,
     .num_kv_heads = 8,
     .head_dim = 128,
     .vocab_size = 128'256,
     .has_output = true,
     .rope_base = 5e5f,
     .context_tokens = 32'768},
    {.name = "tiny",
     .like = "nothing, for tests",
     .num_layers = 2,
     .width = 256,
     .ffn_width = 512,
     .num_heads = 4,
     .num_kv_heads = 2,
     .head_dim = 64,
     .vocab_size = 512,
     .has_output = false,
     .rope_base = 1e4f,
     .context_tokens = 2'048},
};

constexpr std::string_view kMixes[] = {"Q4_0", "Q4_1", "Q4_K_M", "Q8_0", "F16"};

class Random {
 public:
  explicit Random(uint64_t seed) : bits_(seed) {}
  uint32_t Next() { return bits_.Next32(); }
  // Mean 0, variance 1, close to a normal distribution: the sum of twelve values that are uniform in [-1/2, 1/2).
  float Normal() {
    float sum = 0;
    for (int i = 0; i < 12; ++i) sum += static_cast<float>(static_cast<int32_t>(Next()) >> 8) * 0x1p-24f;
    return sum;
  }

 private:
  XorShift64 bits_;
};

// Encoded pieces of rows from which matrices are put together at random: as good as fresh values for an engine, at the
// speed of a copy.
class PiecePool {
 public:
  PiecePool(DType dtype, uint32_t num_inputs, uint64_t seed) {
    const uint32_t piece_elements = std::max(kShortestPiece, GetDTypeInfo(dtype).block_elements);
    piece_bytes_ = RowBytes(dtype, piece_elements);
    bytes_.resize(piece_bytes_ * kNumPieces);
    Random random(seed);
    const float scale = 1.0f / std::sqrt(static_cast<float>(num_inputs));
    std::vector<float> values(size_t{piece_elements} * kNumPieces);
    for (float& value : values) value = random.Normal() * scale;
    EncodeRow(dtype, values, bytes_);
  }

  void Fill(std::span<uint8_t> out, Random& random) const {
    while (!out.empty()) {
      const size_t num_bytes = std::min(piece_bytes_, out.size());
      std::memcpy(out.data(), bytes_.data() + random.Next() % kNumPieces * piece_bytes_, num_bytes);
      out = out.subspan(num_bytes);
    }
  }

 private:
  static constexpr uint32_t kNumPieces = 4096;
  static constexpr uint32_t kShortestPiece = 32;

  size_t piece_bytes_ = 0;
  std::vector<uint8_t> bytes_;
};

// The layers to which Q4_K_M gives more bits: the first and the last eighth, and every third between.
bool UsesMoreBits(uint32_t layer, uint32_t num_layers) {
  const uint32_t eighth = num_layers / 8;
  return layer < eighth || layer >= 7 * num_layers / 8 || (layer - eighth) % 3 == 2;
}

// `dtype`, or what takes its place where rows are no whole blocks of it.
DType ForRowsOf(uint32_t num_inputs, DType dtype) {
  if (num_inputs % GetDTypeInfo(dtype).block_elements == 0) return dtype;
  return dtype == DType::kQ6_K ? DType::kQ8_0 : DType::kQ5_0;
}

// The types of one mix.
struct Mix {
  DType matrix;     // Most matrices.
  DType more_bits;  // attn_v and ffn_down of the layers of UsesMoreBits.
  DType output;     // The output head, or the embedding that serves as one.
};

Mix MixOf(std::string_view name) {
  if (name == "Q4_0") return {DType::kQ4_0, DType::kQ4_0, DType::kQ6_K};
  if (name == "Q4_1") return {DType::kQ4_1, DType::kQ4_1, DType::kQ6_K};
  if (name == "Q4_K_M") return {DType::kQ4_K, DType::kQ6_K, DType::kQ6_K};
  if (name == "Q8_0") return {DType::kQ8_0, DType::kQ8_0, DType::kQ8_0};
  KVERN_CHECK(name == "F16");
  return {DType::kF16, DType::kF16, DType::kF16};
}

// Bytes, two special tokens, some merged pairs, and fillers up to the size of the vocabulary.
void AddTokenizer(const ModelShape& shape, GgufWriter& writer) {
  static constexpr std::string_view kMerges[][2] = {{"h", "e"}, {"i", "n"}, {" ", "t"}, {" t", "he"}, {"in", "g"}};
  std::vector<std::string> tokens, merges;
  for (int byte = 0; byte < 256; ++byte)
    AppendAsLetters(std::string(1, static_cast<char>(byte)), tokens.emplace_back());
  const auto first_special = static_cast<uint32_t>(tokens.size());
  tokens.insert(tokens.end(), {"<|begin|>", "<|end|>"});
  for (const auto& [left, right] : kMerges) {
    std::string& merge = merges.emplace_back();
    AppendAsLetters(left, merge);
    merge += ' ';
    AppendAsLetters(right, merge);
    AppendAsLetters(std::string(left) + std::string(right), tokens.emplace_back());
  }
  while (tokens.size() < shape.vocab_size) tokens.push_back("filler" + std::to_string(tokens.size()));
  std::vector<int32_t> types(tokens.size(), static_cast<int32_t>(TokenType::kNormal));
  std::fill_n(types.begin() + first_special, 2, static_cast<int32_t>(TokenType::kControl));

  writer.Add("tokenizer.ggml.model", "gpt2");
  writer.Add("tokenizer.ggml.pre", "gpt-2");
  writer.AddArray("tokenizer.ggml.tokens", tokens);
  writer.AddArray("tokenizer.ggml.token_type", types);
  writer.AddArray("tokenizer.ggml.merges", merges);
  writer.Add("tokenizer.ggml.bos_token_id", first_special);
  writer.Add("tokenizer.ggml.eos_token_id", first_special + 1);
  writer.Add("tokenizer.ggml.add_bos_token", false);
}

void AddConfig(const ModelShape& shape, std::string_view mix, GgufWriter& writer) {
  writer.Add("general.architecture", "llama");
  writer.Add("general.name", "random weights, shape of " + std::string(shape.like) + ", " + std::string(mix));
  writer.Add("llama.block_count", shape.num_layers);
  writer.Add("llama.context_length", shape.context_tokens);
  writer.Add("llama.embedding_length", shape.width);
  writer.Add("llama.feed_forward_length", shape.ffn_width);
  writer.Add("llama.attention.head_count", shape.num_heads);
  writer.Add("llama.attention.head_count_kv", shape.num_kv_heads);
  writer.Add("llama.attention.key_length", shape.head_dim);
  writer.Add("llama.attention.value_length", shape.head_dim);
  writer.Add("llama.attention.layer_norm_rms_epsilon", 1e-5f);
  writer.Add("llama.rope.dimension_count", shape.head_dim);
  writer.Add("llama.rope.freq_base", shape.rope_base);
  writer.Add("llama.vocab_size", shape.vocab_size);
}

// What the sources of all matrices share while a file is written.
struct Weights {
  std::map<std::pair<DType, uint32_t>, PiecePool> pools;  // By type and inputs, which give the scale.
  uint64_t bytes_done = 0, bytes_total = 0;
  const WriteProgress& progress;
};

// The matrix that follows from `seed`. `weights` outlives the source.
TensorSource RandomMatrix(const RandomTensor& tensor, uint64_t seed, Weights& weights) {
  const auto [pool, is_new] =
      weights.pools.try_emplace({tensor.dtype, tensor.num_inputs}, tensor.dtype, tensor.num_inputs, seed);
  return [&weights, &pieces = pool->second, random = Random(seed)](std::span<uint8_t> part) mutable {
    pieces.Fill(part, random);
    weights.bytes_done += part.size();
    if (weights.progress && !weights.progress(weights.bytes_done, weights.bytes_total)) {
      return Status::Cancelled("interrupted");
    }
    return Status::Ok();
  };
}

}  // namespace

std::span<const ModelShape> ModelShapes() { return kShapes; }

std::span<const std::string_view> TypeMixes() { return kMixes; }

std::vector<RandomTensor> TensorsOf(const ModelShape& shape, std::string_view mix) {
  const Mix types = MixOf(mix);
  const uint32_t q_width = shape.num_heads * shape.head_dim, kv_width = shape.num_kv_heads * shape.head_dim;
  std::vector<RandomTensor> tensors;
  const auto matrix = [&](std::string name, DType dtype, uint32_t num_inputs, uint32_t num_outputs) {
    tensors.push_back({std::move(name), ForRowsOf(num_inputs, dtype), num_inputs, num_outputs});
  };
  const auto norm = [&](std::string name) { tensors.push_back({std::move(name), DType::kF32, shape.width, 1}); };

  matrix("token_embd.weight", shape.has_output ? types.matrix : types.output, shape.width, shape.vocab_size);
  for (uint32_t layer = 0; layer < shape.num_layers; ++layer) {
    const std::string prefix = "blk." + std::to_string(layer) + ".";
    const DType sensitive = UsesMoreBits(layer, shape.num_layers) ? types.more_bits : types.matrix;
    norm(prefix + "attn_norm.weight");
    matrix(prefix + "attn_q.weight", types.matrix, shape.width, q_width);
    matrix(prefix + "attn_k.weight", types.matrix, shape.width, kv_width);
    matrix(prefix + "attn_v.weight", sensitive, shape.width, kv_width);
    matrix(prefix + "attn_output.weight", types.matrix, q_width, shape.width);
    norm(prefix + "ffn_norm.weight");
    matrix(prefix + "ffn_gate.weight", types.matrix, shape.width, shape.ffn_width);
    matrix(prefix + "ffn_up.weight", types.matrix, shape.width, shape.ffn_width);
    matrix(prefix + "ffn_down.weight", sensitive, shape.ffn_width, shape.width);
  }
  norm("output_norm.weight");
  if (shape.has_output) matrix("output.weight", types.output, shape.width, shape.vocab_size);
  return tensors;
}

Status WriteRandomModel(FileSystem& fs, const std::string& path, const ModelShape& shape, std::string_view mix,
                        uint64_t seed, const WriteProgress& progress) {
  GgufWriter writer;
  AddConfig(shape, mix, writer);
  AddTokenizer(shape, writer);
  Weights weights{.pools = {}, .progress = progress};
  for (const RandomTensor& tensor : TensorsOf(shape, mix)) {
    if (tensor.num_outputs == 1) {
      const std::vector<float> ones(tensor.num_inputs, 1.0f);
      writer.AddTensorFromValues(tensor.name, tensor.dtype, {tensor.num_inputs}, ones);
      continue;
    }
    const uint64_t dims[] = {tensor.num_inputs, tensor.num_outputs};
    weights.bytes_total += tensor.num_bytes();
    writer.AddStreamedTensor(tensor.name, tensor.dtype, dims, RandomMatrix(tensor, ++seed, weights));
  }
  return writer.WriteTo(fs, path);
}

}  // namespace kvern
