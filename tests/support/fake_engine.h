// An engine over a model and a tokenizer that cost nothing, for tests of everything between them.
//
// FakeModel's logits are a hash of all tokens of the row's sequence, which it reads back through the view of the KV
// cache: a token that was not computed, was overwritten or stands in the wrong slot changes the answer.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <semaphore>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "engine/cache_plan.h"
#include "engine/engine_internal.h"
#include "kernels/dispatch.h"

namespace kvern {

inline constexpr uint32_t kFakeVocabSize = 64;
inline constexpr TokenId kFakeEos = 0;
inline constexpr KvShape kFakeShape{.num_layers = 2, .num_kv_heads = 2, .head_dim = 16};
inline constexpr uint32_t kFakeHeads = 4;

// Tokens 1 to 26 are the letters, 27 and 28 the two bytes of "é", the rest "[id]"; 0 ends the text.
class FakeTokenizer : public Tokenizer {
 public:
  Result<std::vector<TokenId>> Encode(std::string_view text, const EncodeOptions&) const override {
    std::vector<TokenId> tokens;
    for (const char c : text) {
      if (c < 'a' || c > 'z') return Status::InvalidArgument("only letters");
      tokens.push_back(c - 'a' + 1);
    }
    return tokens;
  }
  std::string TokenBytes(TokenId token, bool) const override {
    if (token <= 0 || token >= static_cast<TokenId>(kFakeVocabSize)) return "";
    if (token <= 26) return std::string(1, static_cast<char>('a' + token - 1));
    if (token == 27) return "\xC3";
    if (token == 28) return "\xA9";
    return "[" + std::to_string(token) + "]";
  }
  std::string Decode(const std::vector<TokenId>& tokens, bool render_special) const override {
    std::string text;
    for (const TokenId token : tokens) text += TokenBytes(token, render_special);
    return text;
  }
  size_t vocab_size() const override { return kFakeVocabSize; }
  std::optional<TokenId> bos() const override { return std::nullopt; }
  std::optional<TokenId> eos() const override { return kFakeEos; }
  bool IsEndOfGeneration(TokenId token) const override { return token == kFakeEos; }
  bool IsControl(TokenId token) const override { return token == kFakeEos; }
  std::string Description() const override { return "fake"; }
};

// What the fake model answers after `tokens`: values in [0, 8), the end of the text never the largest.
inline std::vector<float> FakeLogits(std::span<const TokenId> tokens) {
  uint64_t hash = 0x9E3779B97F4A7C15;
  const auto mix = [](uint64_t x) {
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EB;
    return x ^ (x >> 31);
  };
  for (const TokenId token : tokens) hash = mix(hash * 31 + static_cast<uint64_t>(token) + 1);
  std::vector<float> logits(kFakeVocabSize);
  for (uint64_t i = 0; i < kFakeVocabSize; ++i) {
    logits[i] = static_cast<float>(mix(hash + i * 0x632BE59BD9B4E019) >> 40) * 0x1p-21f;
  }
  logits[kFakeEos] = -1;
  return logits;
}

// The positions that the row at `position` sees, ascending.
inline std::vector<uint32_t> FakeVisible(const AttentionSpan& span, uint32_t position) {
  std::vector<uint32_t> visible;
  for (uint32_t p = 0; p <= position; ++p) {
    const bool is_pinned = std::ranges::any_of(span.pinned, [p](auto& r) { return p >= r.begin && p < r.end; });
    if (span.window == 0 || p + span.window > position || is_pinned) visible.push_back(p);
  }
  return visible;
}

class FakeModel : public Model {
 public:
  FakeModel() {
    config_.architecture = "fake";
    config_.num_layers = kFakeShape.num_layers;
    config_.num_heads = kFakeHeads;
    config_.num_kv_heads = kFakeShape.num_kv_heads;
    config_.head_dim = kFakeShape.head_dim;
    config_.vocab_size = kFakeVocabSize;
    config_.context_tokens = 4096;
    config_.layer_groups = {{.window = 0, .num_layers = config_.num_layers}};
  }

  // Layers that see the same span; together kFakeShape.num_layers.
  void SetLayerGroups(std::vector<LayerGroup> groups) { config_.layer_groups = std::move(groups); }

  // Runs at the start of each pass on the engine thread; a status that is not ok fails the pass.
  std::function<Status(const ForwardBatch& batch)> on_forward;
  uint64_t kv_values_lost = 0;  // In each pass.
  // Changes the logits after `tokens`.
  std::function<void(std::span<const TokenId> tokens, std::span<float> logits)> on_logits;

  const ModelConfig& config() const override { return config_; }
  uint64_t weight_bytes() const override { return 1000; }

  Result<ForwardStats> Forward(const ForwardBatch& batch, std::span<float> logits) override {
    if (on_forward) KVERN_RETURN_IF_ERROR(on_forward(batch));
    ForwardStats stats;
    stats.kv_values_lost = kv_values_lost;
    size_t next_logits = 0;
    for (const SequenceRows& rows : batch.sequences) {
      for (uint32_t i = 0; i < rows.num_rows; ++i) Store(batch, rows, i);
      for (uint32_t i = 0; i < rows.num_rows; ++i) {
        const uint32_t position = rows.first_position + i;
        ++stats.rows_computed;
        for (size_t g = 0; g < config_.layer_groups.size(); ++g) {
          stats.query_key_products +=
              uint64_t{config_.layer_groups[g].num_layers} * kFakeHeads * FakeVisible(batch.spans[g], position).size();
        }
        if (next_logits == batch.logit_rows.size() || batch.logit_rows[next_logits] != rows.first_row + i) continue;
        const std::vector<TokenId> tokens = Load(batch, rows, position);
        const std::span<float> out = logits.subspan(next_logits++ * kFakeVocabSize, kFakeVocabSize);
        std::ranges::copy(FakeLogits(tokens), out.begin());
        if (on_logits) on_logits(tokens, out);
      }
    }
    return stats;
  }

 private:
  // Value `dim` of a slot's K row (or V row) of a layer and head.
  static float* At(const KvView& kv, BlockIndex block, uint32_t slot, uint32_t layer, uint32_t head, bool is_v,
                   uint32_t dim) {
    if (is_v) return reinterpret_cast<float*>(kv.HeadV(block, layer, head)) + slot * kv.head_dim + dim;
    return reinterpret_cast<float*>(kv.HeadK(block, layer, head)) +
           (slot / kGranuleSlots * kv.head_dim + dim) * kGranuleSlots + slot % kGranuleSlots;
  }
  // Calls fn(token, position) with the two values that each copy of a slot holds.
  template <typename Fn>
  void ForEachCopy(const ForwardBatch& batch, const SequenceRows& rows, size_t group, uint32_t position, Fn fn) const {
    const KvView& kv = batch.kv[group];
    const BlockIndex block = rows.block_tables[group][position / kv.block_size];
    KVERN_CHECK(block != kNoBlock);
    for (uint32_t layer = 0; layer < config_.layer_groups[group].num_layers; ++layer) {
      for (uint32_t head = 0; head < kFakeShape.num_kv_heads; ++head) {
        for (const bool is_v : {false, true}) {
          const uint32_t slot = position % kv.block_size;
          fn(*At(kv, block, slot, layer, head, is_v, 0), *At(kv, block, slot, layer, head, is_v, 15));
        }
      }
    }
  }
  void Store(const ForwardBatch& batch, const SequenceRows& rows, uint32_t i) const {
    const uint32_t position = rows.first_position + i;
    for (size_t g = 0; g < config_.layer_groups.size(); ++g) {
      ForEachCopy(batch, rows, g, position, [&](float& token, float& stored_position) {
        token = static_cast<float>(batch.tokens[rows.first_row + i]);
        stored_position = static_cast<float>(position);
      });
    }
  }
  // The tokens that the row at `last` sees, in each layer group; -1 where copies disagree or stand at the wrong
  // position.
  std::vector<TokenId> Load(const ForwardBatch& batch, const SequenceRows& rows, uint32_t last) const {
    std::vector<TokenId> tokens;
    for (size_t g = 0; g < config_.layer_groups.size(); ++g) {
      for (const uint32_t position : FakeVisible(batch.spans[g], last)) {
        std::optional<TokenId> found;
        ForEachCopy(batch, rows, g, position, [&](float token, float stored_position) {
          if (!found.has_value()) found = static_cast<TokenId>(token);
          const bool is_right =
              *found == static_cast<TokenId>(token) && stored_position == static_cast<float>(position);
          if (!is_right) found = -1;
        });
        tokens.push_back(*found);
      }
    }
    return tokens;
  }

  ModelConfig config_;
};

// The answer that greedy decoding must give where layers see `spans`: no cache, no batch, no engine.
inline std::vector<TokenId> FakeGreedyAnswer(std::vector<TokenId> tokens, size_t num_tokens,
                                             const std::vector<AttentionSpan>& spans = {{}}) {
  std::vector<TokenId> answer;
  for (size_t i = 0; i < num_tokens; ++i) {
    std::vector<TokenId> seen;
    for (const AttentionSpan& span : spans) {
      for (const uint32_t p : FakeVisible(span, static_cast<uint32_t>(tokens.size() - 1))) seen.push_back(tokens[p]);
    }
    const std::vector<float> logits = FakeLogits(seen);
    const auto best = static_cast<TokenId>(std::max_element(logits.begin(), logits.end()) - logits.begin());
    tokens.push_back(best);
    answer.push_back(best);
  }
  return answer;
}

struct FakeEngine {
  std::unique_ptr<Engine> engine;
  FakeModel* model = nullptr;  // The engine's.
};

// Options of a fake engine: blocks of 16 f32 tokens, room for `context_tokens`; sequences leave nothing behind.
inline EngineOptions FakeEngineOptions(uint32_t context_tokens = 256) {
  EngineOptions options;
  options.model_path = "fake";
  options.context_tokens = context_tokens;
  options.prefill_chunk = 32;
  options.cache.block_size = 16;
  options.cache.k_type = KvType::kF32;
  options.cache.v_type = KvType::kF32;
  options.cache.reuses_prefixes = false;
  return options;
}

// `prepare` sees the model before the engine starts. It has workers where options.num_threads > 0.
inline FakeEngine MakeFakeEngine(EngineOptions options, const std::function<void(FakeModel&)>& prepare = {},
                                 std::unique_ptr<BlockStore> store = nullptr) {
  auto model = std::make_unique<FakeModel>();
  if (prepare) prepare(*model);
  CachePlan plan = PlanCache(options, model->config()).value();
  EngineParts parts;
  options.context_tokens = plan.context_tokens;
  options.cache.budget_bytes = plan.budget_bytes;
  parts.options = options;
  parts.wanted_context_tokens = plan.wanted_context_tokens;
  parts.kernels = RunnableTargets().front();
  if (options.num_threads > 0) parts.workers = std::make_unique<ThreadPool>(options.num_threads);
  parts.tokenizer = std::make_unique<FakeTokenizer>();
  parts.cache = KvCache::Create(std::move(plan.spec), HeapAllocator()).value();
  parts.store = std::move(store);
  FakeEngine fake;
  fake.model = model.get();
  parts.model = std::move(model);
  fake.engine = MakeEngine(std::move(parts)).value();
  return fake;
}

inline constexpr uint64_t kFakeBlockBytes = 2ull * 2 * 16 * 16 * 4 * 2;  // Layers, heads, slots, dims, bytes, K and V.
inline constexpr uint64_t kProductsPerPair = 2 * kFakeHeads;             // Layers x heads.

// A prompt of `n` tokens that another `seed` makes another.
inline std::vector<TokenId> Prompt(size_t n, uint32_t seed = 1) {
  std::vector<TokenId> tokens(n);
  for (size_t i = 0; i < n; ++i) tokens[i] = static_cast<TokenId>(1 + (i * 7 + seed * 13 + i * i * seed) % 60);
  return tokens;
}

// All that came of one request.
struct Answer {
  std::vector<TokenId> tokens;
  std::string text;
  FinishReason reason;
  Status status;
  RequestStats stats;
};

// Reads to the end.
inline Answer Drain(TokenStream& stream) {
  Answer answer;
  while (const std::optional<TokenEvent> event = stream.Next()) {
    if (event->token >= 0) answer.tokens.push_back(event->token);
    answer.text += event->text;
  }
  answer.reason = stream.finish_reason();
  answer.status = stream.status();
  answer.stats = stream.stats();
  return answer;
}

inline Answer Ask(Engine& engine, Request request) {
  Result<TokenStream> stream = engine.Submit(std::move(request));
  if (!stream.ok()) return {{}, "", FinishReason::kNone, stream.status(), {}};
  return Drain(*stream);
}

// Holds the engine at the start of a pass until the test lets it go on.
class Gate {
 public:
  Status Pass() {
    if (is_open_) return Status::Ok();
    arrived_.release();
    go_.acquire();
    return Status::Ok();
  }
  void AwaitArrival() { arrived_.acquire(); }
  void LetOnePass() { go_.release(); }
  void Open() {
    is_open_ = true;
    go_.release();
  }

 private:
  std::atomic<bool> is_open_ = false;
  std::counting_semaphore<> arrived_{0};
  std::counting_semaphore<> go_{0};
};

inline FakeEngine GatedEngine(EngineOptions options, Gate& gate) {
  return MakeFakeEngine(
      options, [&gate](FakeModel& model) { model.on_forward = [&gate](const ForwardBatch&) { return gate.Pass(); }; });
}

}  // namespace kvern
