// Answers that share the blocks of one prompt get the logits that each of them gets alone, bit for bit: on a small
// random model, for every target, with prompts that end inside a block and cross splits of attention.
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/fake_engine.h"
#include "tests/support/recording_model.h"
#include "tests/support/tiny_model.h"

namespace kvern {
namespace {

using LogitRows = std::multiset<std::vector<float>>;

struct RunSetup {
  const KernelTable* target;
  uint32_t num_threads;
  uint32_t block_size;
  std::string ToString() const {
    return std::string(target->name) + ", " + std::to_string(num_threads) + " threads, blocks of " +
           std::to_string(block_size);
  }
};

std::unique_ptr<Engine> MakeTinyEngine(const RunSetup& setup, LogitRows& rows) {
  const TinyModelSpec spec = {.num_heads = 6, .num_kv_heads = 2, .head_dim = 32, .vocab_size = kFakeVocabSize};
  LoadedTinyModel tiny = LoadTinyModel(spec, *setup.target, setup.num_threads);
  EngineOptions options;
  options.model_path = "tiny";
  options.context_tokens = 1024;
  options.prefill_chunk = 100;
  options.cache.block_size = setup.block_size;
  options.cache.reuses_prefixes = false;  // Forks alone.
  options.cache.budget_bytes = 8u << 20;
  CachePlan plan = PlanCache(options, tiny.model->config()).value();
  EngineParts parts;
  parts.options = options;
  parts.wanted_context_tokens = plan.wanted_context_tokens;
  parts.kernels = setup.target;
  parts.workers = std::move(tiny.pool);
  parts.tokenizer = std::make_unique<FakeTokenizer>();
  parts.model = std::make_unique<RecordingModel>(std::move(tiny.model),
                                                 [&rows](std::vector<float> row) { rows.insert(std::move(row)); });
  parts.cache = KvCache::Create(std::move(plan.spec), HeapAllocator()).value();
  return MakeEngine(std::move(parts)).value();
}

Request DrawnRequest(uint32_t prompt_tokens) {
  Request request{.prompt = RandomTokens(prompt_tokens, kFakeVocabSize, prompt_tokens), .max_tokens = 12};
  request.sampling.temperature = 1;
  request.sampling.seed = 5;
  request.ends_at_eos = false;
  return request;
}

TEST(TinyChoicesTest, TokensAndLogitsAreThoseOfEachRequestAlone) {
  constexpr uint32_t kChoices = 5;
  for (const uint32_t prompt_tokens : {1u, 16u, 70u, 300u, 523u}) {
    std::vector<std::vector<TokenId>> expected;
    LogitRows expected_rows, prompt_row;
    {
      const auto alone =
          MakeTinyEngine({RunnableTargets().back(), /*num_threads=*/1, /*block_size=*/32}, expected_rows);
      for (uint32_t i = 0; i < kChoices; ++i) {
        Request request = DrawnRequest(prompt_tokens);
        request.choice_index = i;
        expected.push_back(Ask(*alone, request).tokens);
      }
      // Each of them had the logits after the prompt, the group has them once.
      const auto once = MakeTinyEngine({RunnableTargets().back(), 1, 32}, prompt_row);
      Request request = DrawnRequest(prompt_tokens);
      request.max_tokens = 1;
      Ask(*once, request);
    }
    ASSERT_EQ(prompt_row.size(), 1u);
    ASSERT_EQ(expected_rows.count(*prompt_row.begin()), kChoices);
    expected_rows.erase(*prompt_row.begin());
    expected_rows.insert(*prompt_row.begin());

    for (const KernelTable* target : RunnableTargets()) {
      for (const uint32_t num_threads : {1u, 2u}) {
        for (const uint32_t block_size : {16u, 64u, 256u}) {
          // generic is the oracle and slow.
          if (target == RunnableTargets().front() && (num_threads != 1 || block_size != 16)) continue;
          const RunSetup setup = {target, num_threads, block_size};
          LogitRows rows;
          auto engine = MakeTinyEngine(setup, rows);

          std::vector<TokenStream> streams = engine->SubmitChoices(DrawnRequest(prompt_tokens), kChoices).value();
          std::vector<std::vector<TokenId>> tokens;
          for (TokenStream& stream : streams) tokens.push_back(Drain(stream).tokens);
          const CacheStats cache = engine->Stats().cache;
          engine.reset();

          ASSERT_EQ(tokens, expected) << setup.ToString() << ", prompt of " << prompt_tokens;
          ASSERT_TRUE(rows == expected_rows) << setup.ToString() << ", prompt of " << prompt_tokens;
          EXPECT_EQ(cache.free_blocks, cache.total_blocks);
        }
      }
    }
  }
}

}  // namespace
}  // namespace kvern
