// The engine over small random models: every placement, stored type, block size, chunk and window gives the logits of a
// pass over all tokens masked to the same window, token by token, in generic code.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "kvcache/placement/placement_registry.h"
#include "tests/support/fake_engine.h"
#include "tests/support/forward_harness.h"
#include "tests/support/recording_model.h"
#include "tests/support/tiny_model.h"

namespace kvern {
namespace {

using Row = std::vector<float>;

struct Window {
  uint32_t tokens = 0, num_sinks = 0;
  std::vector<TokenRange> global_tokens = {};
};

struct EngineSetup {
  TinyModelSpec spec;
  Window window;
  KvType kv_type;
};

std::unique_ptr<Engine> MakeTinyEngine(const EngineSetup& setup, const KernelTable& target, uint32_t num_threads,
                                       EngineOptions options, std::vector<Row>& rows) {
  LoadedTinyModel tiny = LoadTinyModel(setup.spec, target, num_threads);
  options.model_path = "tiny";
  options.context_tokens = 300;
  options.cache.window_tokens = setup.window.tokens;
  options.cache.num_sinks = setup.window.num_sinks;
  options.cache.global_tokens = setup.window.global_tokens;
  options.cache.k_type = options.cache.v_type = setup.kv_type;
  CachePlan plan = PlanCache(options, tiny.model->config()).value();
  EngineParts parts;
  options.context_tokens = plan.context_tokens;
  options.cache.budget_bytes = plan.budget_bytes;
  parts.options = options;
  parts.wanted_context_tokens = plan.wanted_context_tokens;
  parts.kernels = &target;
  parts.workers = std::move(tiny.pool);
  parts.tokenizer = std::make_unique<FakeTokenizer>();
  parts.model = std::make_unique<RecordingModel>(std::move(tiny.model),
                                                 [&rows](std::vector<float> row) { rows.push_back(std::move(row)); });
  parts.cache = KvCache::Create(std::move(plan.spec), HeapAllocator()).value();
  return MakeEngine(std::move(parts)).value();
}

// Logits after each token from number `first` on.
std::vector<Row> ExpectedRows(const EngineSetup& setup, const std::vector<TokenId>& tokens, size_t first) {
  const KernelTable& generic = *RunnableTargets().front();
  LoadedTinyModel tiny = LoadTinyModel(setup.spec, generic, /*num_threads=*/1);
  std::vector<PositionRange> pinned;
  if (setup.window.num_sinks > 0) pinned.push_back({0, setup.window.num_sinks});
  for (const TokenRange& range : setup.window.global_tokens) pinned.push_back({range.begin, range.end});
  const ForwardPlan plan = {.block_size = 16,
                            .chunk = 1,
                            .kv_type = setup.kv_type,
                            .has_key_centres = false,
                            .span = {setup.window.tokens, pinned}};
  const ForwardOutcome outcome = RunForward(*tiny.model, generic, {tokens}, plan);
  std::vector<Row> rows;
  const size_t vocab_size = setup.spec.vocab_size;
  for (size_t i = first; i < tokens.size(); ++i) {
    const float* row = &outcome.traces[0].logits[i * vocab_size];
    rows.emplace_back(row, row + vocab_size);
  }
  return rows;
}

void ExpectExact(const EngineSetup& setup, const std::string& what) {
  constexpr uint32_t kPromptTokens = 75, kAnswerTokens = 70;
  const KernelTable& fastest = *RunnableTargets().back();
  std::vector<TokenId> answer;
  std::vector<Row> expected;
  for (const Placement* placement : AllPlacements()) {
    if (!placement->Check({.window = setup.window.tokens}).ok()) continue;
    for (const auto& [block_size, chunk] : {std::pair{16u, 64u}, {16u, 1u}, {32u, 19u}}) {
      for (const bool is_cached : {true, false}) {
        if (!is_cached && chunk != 19) continue;
        EngineOptions options;
        options.prefill_chunk = chunk;
        options.cache.block_size = block_size;
        options.cache.placement = placement->Name();
        options.cache.is_enabled = is_cached;
        std::vector<Row> rows;
        auto engine = MakeTinyEngine(setup, fastest, /*num_threads=*/chunk == 64 ? 2 : 1, options, rows);
        Request request{.prompt = RandomTokens(kPromptTokens, kFakeVocabSize, 4), .max_tokens = kAnswerTokens};
        request.ends_at_eos = false;

        const Answer found = Ask(*engine, request);
        engine.reset();

        ASSERT_TRUE(found.status.ok()) << found.status.ToString();
        ASSERT_EQ(found.tokens.size(), kAnswerTokens);
        if (answer.empty()) {
          answer = found.tokens;
          std::vector<TokenId> tokens = request.prompt;
          tokens.insert(tokens.end(), answer.begin(), answer.end() - 1);
          expected = ExpectedRows(setup, tokens, kPromptTokens - 1);
        }
        const std::string label = what + ", " + std::string(placement->Name()) + ", blocks of " +
                                  std::to_string(block_size) + ", chunk " + std::to_string(chunk) +
                                  (is_cached ? "" : ", uncached");
        ASSERT_EQ(found.tokens, answer) << label;
        ASSERT_EQ(rows.size(), expected.size()) << label;
        for (size_t i = 0; i < rows.size(); ++i) {
          ASSERT_EQ(std::memcmp(rows[i].data(), expected[i].data(), rows[i].size() * sizeof(float)), 0)
              << label << ", logits " << i;
        }
      }
    }
  }
}

TEST(TinyPlacementsTest, LogitsAreThoseOfTheMaskedPassForEveryPlacement) {
  const Window windows[] = {
      {}, {.tokens = 32}, {.tokens = 40, .num_sinks = 4}, {.tokens = 33, .num_sinks = 2, .global_tokens = {{20, 22}}}};
  for (const char* const architecture : {"llama", "gemma3"}) {
    for (const Window& window : windows) {
      for (const KvType kv_type : {KvType::kF32, KvType::kF16, KvType::kI8, KvType::kI4}) {
        if (window.num_sinks != 4 && kv_type != KvType::kF32) continue;  // Types where everything moves.
        EngineSetup setup = {
            .spec = {.architecture = architecture, .vocab_size = kFakeVocabSize}, .window = window, .kv_type = kv_type};
        setup.spec.window = 24;  // Of every other layer of gemma3.
        ExpectExact(setup, std::string(architecture) + ", window " + std::to_string(window.tokens) + " + " +
                               std::to_string(window.num_sinks) + ", " + std::string(KvTypeName(kv_type)));
      }
    }
  }
}

}  // namespace
}  // namespace kvern
