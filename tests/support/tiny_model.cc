#include "tests/support/tiny_model.h"

#include <cmath>
#include <utility>

#include "base/check.h"
#include "base/xorshift.h"
#include "tests/support/mem_file_system.h"
#include "tokenizer/byte_alphabet.h"
#include "tokenizer/vocab.h"

namespace kvern {
namespace {

class Random {
 public:
  explicit Random(uint64_t seed) : bits_(seed) {}
  uint64_t Next() { return bits_.Next64(); }
  // In (-scale, scale).
  float Symmetric(float scale) { return (static_cast<float>(Next() >> 40) / 8388608.0f - 1.0f) * scale; }
  std::vector<float> Values(uint64_t count, float scale) {
    std::vector<float> values(count);
    for (float& v : values) v = Symmetric(scale);
    return values;
  }

 private:
  XorShift64 bits_;
};

}  // namespace

std::string TinyModelSpec::ToString() const {
  return architecture + ", " + std::string(GetDTypeInfo(dtype).name) + ", width " + std::to_string(width) + ", heads " +
         std::to_string(num_heads) + "/" + std::to_string(num_kv_heads) + " of " + std::to_string(head_dim) +
         ", vocab " + std::to_string(vocab_size) + (has_output ? ", own output" : ", tied") +
         (architecture == "gemma3" ? ", window " + std::to_string(window) : "");
}

std::vector<uint8_t> TinyModelBytes(const TinyModelSpec& spec) {
  Random random(spec.seed);
  GgufWriter writer;
  const bool is_gemma3 = spec.architecture == "gemma3";
  const std::string keys = spec.architecture + ".";
  writer.Add("general.architecture", spec.architecture);
  writer.Add("general.name", "tiny");
  writer.Add(keys + "block_count", spec.num_layers);
  writer.Add(keys + "embedding_length", spec.width);
  writer.Add(keys + "feed_forward_length", spec.ffn_width);
  writer.Add(keys + "context_length", spec.context_tokens);
  writer.Add(keys + "attention.head_count", spec.num_heads);
  writer.Add(keys + "attention.head_count_kv", spec.num_kv_heads);
  writer.Add(keys + "attention.key_length", spec.head_dim);
  writer.Add(keys + "attention.value_length", spec.head_dim);
  writer.Add(keys + "attention.layer_norm_rms_epsilon", 1e-5f);
  writer.Add(keys + "rope.freq_base", 10000.0f);
  if (spec.rope_linear_factor != 1.0) {
    writer.Add(keys + "rope.scaling.type", "linear");
    writer.Add(keys + "rope.scaling.factor", static_cast<float>(spec.rope_linear_factor));
  }
  if (is_gemma3) {
    writer.Add(keys + "rope.freq_base_swa", 500.0f);
    writer.Add(keys + "attention.sliding_window", spec.window);
    writer.Add(keys + "attention.sliding_window_pattern", spec.window_pattern);
  }
  if (spec.has_tokenizer) {
    std::vector<std::string> tokens(spec.vocab_size);
    std::vector<int32_t> types(spec.vocab_size, static_cast<int32_t>(TokenType::kNormal));
    for (uint32_t i = 0; i < spec.vocab_size; ++i) {
      if (i < 256) {
        AppendAsLetters(std::string(1, static_cast<char>(i)), tokens[i]);
      } else {
        tokens[i] = "<unused " + std::to_string(i) + ">";
        types[i] = static_cast<int32_t>(TokenType::kControl);
      }
    }
    writer.Add("tokenizer.ggml.model", "gpt2");
    writer.Add("tokenizer.ggml.pre", "gpt-2");
    writer.AddArray("tokenizer.ggml.tokens", tokens);
    writer.AddArray("tokenizer.ggml.token_type", types);
    writer.AddArray("tokenizer.ggml.merges", std::vector<std::string>());
  }

  const auto matrix = [&](const std::string& name, DType dtype, uint32_t inputs, uint32_t outputs) {
    // Columns of unit-sized rows keep activations near 1 through the layers.
    const float scale = 1.7f / std::sqrt(static_cast<float>(inputs));
    writer.AddTensorFromValues(name, dtype, {inputs, outputs}, random.Values(uint64_t{inputs} * outputs, scale));
  };
  const auto vector = [&](const std::string& name, uint32_t size) {
    std::vector<float> values = random.Values(size, 0.3f);
    for (float& v : values) v += 1.0f;
    writer.AddTensorFromValues(name, DType::kF32, {size}, values);
  };
  matrix("token_embd.weight", spec.embd_dtype, spec.width, spec.vocab_size);
  for (uint32_t i = 0; i < spec.num_layers; ++i) {
    const std::string prefix = "blk." + std::to_string(i) + ".";
    vector(prefix + "attn_norm.weight", spec.width);
    matrix(prefix + "attn_q.weight", spec.dtype, spec.width, spec.num_heads * spec.head_dim);
    matrix(prefix + "attn_k.weight", spec.dtype, spec.width, spec.num_kv_heads * spec.head_dim);
    matrix(prefix + "attn_v.weight", spec.dtype, spec.width, spec.num_kv_heads * spec.head_dim);
    matrix(prefix + "attn_output.weight", spec.dtype, spec.num_heads * spec.head_dim, spec.width);
    if (is_gemma3) {
      vector(prefix + "attn_q_norm.weight", spec.head_dim);
      vector(prefix + "attn_k_norm.weight", spec.head_dim);
      vector(prefix + "post_attention_norm.weight", spec.width);
      vector(prefix + "post_ffw_norm.weight", spec.width);
    }
    vector(prefix + "ffn_norm.weight", spec.width);
    matrix(prefix + "ffn_gate.weight", spec.dtype, spec.width, spec.ffn_width);
    matrix(prefix + "ffn_up.weight", spec.dtype, spec.width, spec.ffn_width);
    matrix(prefix + "ffn_down.weight", spec.dtype, spec.ffn_width, spec.width);
  }
  vector("output_norm.weight", spec.width);
  if (spec.has_output) matrix("output.weight", spec.embd_dtype, spec.width, spec.vocab_size);
  if (spec.has_rope_factors) vector("rope_freqs.weight", spec.head_dim / 2);
  return writer.Build();
}

GgufFile OpenTinyModel(const TinyModelSpec& spec) {
  MemFileSystem files;
  files.Put("tiny.gguf", TinyModelBytes(spec));
  auto file = GgufFile::Open(files, "tiny.gguf");
  KVERN_CHECK(file.ok());
  return std::move(file).value();
}

LoadedTinyModel LoadTinyModel(const TinyModelSpec& spec, const KernelTable& kernels, uint32_t num_threads,
                              ActivationMode activations) {
  const GgufFile file = OpenTinyModel(spec);
  auto pool = std::make_unique<ThreadPool>(num_threads);
  auto model = LoadModel(
      file, {.activations = activations, .kernels = &kernels, .pool = pool.get(), .allocator = &HeapAllocator()});
  if (!model.ok()) std::fprintf(stderr, "%s\n", model.status().ToString().c_str());
  KVERN_CHECK(model.ok());
  return {std::move(pool), std::move(model).value()};
}

std::vector<TokenId> RandomTokens(uint32_t count, uint32_t vocab_size, uint64_t seed) {
  Random random(seed);
  std::vector<TokenId> tokens(count);
  for (TokenId& t : tokens) t = static_cast<TokenId>(random.Next() % vocab_size);
  return tokens;
}

}  // namespace kvern
