#include "kvern/engine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "tests/support/fake_engine.h"

namespace kvern {
namespace {

using ::testing::ElementsAre;

TEST(EngineTest, GreedyAnswerIsThatOfTheModelAlone) {
  const FakeEngine fake = MakeFakeEngine(FakeEngineOptions());

  const Answer answer = Ask(*fake.engine, {.prompt = Prompt(40), .max_tokens = 50});

  EXPECT_EQ(answer.tokens, FakeGreedyAnswer(Prompt(40), 50));
  EXPECT_EQ(answer.reason, FinishReason::kLength);
  EXPECT_TRUE(answer.status.ok());
}

TEST(EngineTest, UncachedEngineGivesTheSameAnswerForAnyChunkAndBlock) {
  const std::vector<TokenId> expected = FakeGreedyAnswer(Prompt(37), 30);
  for (const bool is_cached : {true, false}) {
    for (const uint32_t chunk : {1u, 2u, 3u, 7u, 16u, 64u, 512u}) {
      for (const uint32_t block_size : {16u, 32u, 64u}) {
        EngineOptions options = FakeEngineOptions();
        options.prefill_chunk = chunk;
        options.cache.block_size = block_size;
        options.cache.is_enabled = is_cached;
        const FakeEngine fake = MakeFakeEngine(options);

        const Answer answer = Ask(*fake.engine, {.prompt = Prompt(37), .max_tokens = 30});

        ASSERT_EQ(answer.tokens, expected) << "cached " << is_cached << ", chunk " << chunk << ", block " << block_size;
      }
    }
  }
}

TEST(EngineTest, RequestsInOneBatchGetTheAnswersThatTheyGetAlone) {
  for (const bool is_cached : {true, false}) {
    EngineOptions options = FakeEngineOptions();
    options.cache.is_enabled = is_cached;
    options.cache.budget_bytes = 100 * kFakeBlockBytes;
    Gate gate;
    const FakeEngine fake = GatedEngine(options, gate);
    std::vector<Request> requests;
    for (uint32_t i = 0; i < 10; ++i) {
      SamplingOptions sampling;
      sampling.temperature = i % 2 == 0 ? 0.0f : 1.0f;
      sampling.seed = i;
      requests.push_back({.prompt = Prompt(1 + i * 11, i), .max_tokens = 5 + i * 3, .sampling = sampling});
    }

    std::vector<TokenStream> streams;
    for (const Request& request : requests) streams.push_back(fake.engine->Submit(request).value());
    gate.AwaitArrival();
    gate.Open();
    std::vector<Answer> together;
    for (TokenStream& stream : streams) together.push_back(Drain(stream));

    for (size_t i = 0; i < requests.size(); ++i) {
      const FakeEngine alone = MakeFakeEngine(FakeEngineOptions());
      const Answer expected = Ask(*alone.engine, requests[i]);
      EXPECT_EQ(together[i].tokens, expected.tokens) << i;
      EXPECT_EQ(together[i].text, expected.text) << i;
      if (is_cached) {
        EXPECT_EQ(together[i].stats.tokens_computed, expected.stats.tokens_computed);
        EXPECT_EQ(together[i].stats.query_key_products, expected.stats.query_key_products);
      }
    }
    EXPECT_GT(fake.engine->Stats().cache.peak_used_blocks, 8u);
    EXPECT_EQ(fake.engine->Stats().cache.free_blocks, 100u);
  }
}

TEST(EngineTest, DecodingGoesOnWhileAnotherPromptIsPrefilled) {
  EngineOptions options = FakeEngineOptions();
  options.prefill_chunk = 8;
  options.cache.budget_bytes = 64 * kFakeBlockBytes;
  std::vector<std::vector<uint32_t>> steps;  // Rows per sequence of each step.
  Gate gate;
  const FakeEngine fake = MakeFakeEngine(options, [&](FakeModel& model) {
    model.on_forward = [&](const ForwardBatch& batch) {
      std::vector<uint32_t> rows;
      for (const SequenceRows& sequence : batch.sequences) rows.push_back(sequence.num_rows);
      steps.push_back(rows);
      return gate.Pass();
    };
  });

  TokenStream first = fake.engine->Submit({.prompt = Prompt(3), .max_tokens = 4}).value();
  gate.AwaitArrival();
  TokenStream second = fake.engine->Submit({.prompt = Prompt(12), .max_tokens = 1}).value();
  TokenStream third = fake.engine->Submit({.prompt = Prompt(9), .max_tokens = 1}).value();
  gate.Open();
  Drain(first);
  Drain(second);
  Drain(third);

  // The prompts take turns; the last token of one is as cheap as that of an answer.
  EXPECT_THAT(steps, ElementsAre(ElementsAre(3), ElementsAre(1, 8), ElementsAre(1, 8), ElementsAre(1, 1, 4)));
}

TEST(EngineTest, UncachedSequencesTakeTurns) {
  EngineOptions options = FakeEngineOptions();
  options.prefill_chunk = 8;
  options.cache.is_enabled = false;
  options.cache.budget_bytes = 64 * kFakeBlockBytes;
  std::vector<std::pair<TokenId, uint32_t>> rows;  // First token of each sequence's rows at position 0, and how many.
  Gate gate;
  const FakeEngine fake = MakeFakeEngine(options, [&](FakeModel& model) {
    model.on_forward = [&](const ForwardBatch& batch) {
      for (const SequenceRows& s : batch.sequences) {
        if (s.first_position == 0) rows.emplace_back(batch.tokens[s.first_row], s.num_rows);
      }
      return gate.Pass();
    };
  });

  TokenStream first = fake.engine->Submit({.prompt = {1, 1, 1, 1, 1, 1}, .max_tokens = 3}).value();
  gate.AwaitArrival();
  TokenStream second = fake.engine->Submit({.prompt = {2, 2, 2, 2, 2, 2}, .max_tokens = 3}).value();
  gate.Open();
  Drain(first);
  Drain(second);

  // The second goes first when it has come, then they take turns; each time the other one gets what is left of 8 rows.
  EXPECT_THAT(rows, ElementsAre(std::pair(1, 6u), std::pair(2, 6u), std::pair(1, 2u), std::pair(2, 3u),
                                std::pair(1, 4u), std::pair(2, 4u)));
}

TEST(EngineTest, CachedCountersAreThoseOfTheory) {
  EngineOptions options = FakeEngineOptions();
  options.prefill_chunk = 64;
  const FakeEngine fake = MakeFakeEngine(options);
  constexpr uint64_t kPrompt = 20, kAnswer = 15;

  const RequestStats stats = Ask(*fake.engine, {.prompt = Prompt(kPrompt), .max_tokens = kAnswer}).stats;

  constexpr uint64_t kComputed = kPrompt + kAnswer - 1;  // The last token is read by no step.
  EXPECT_EQ(stats.prompt_tokens, kPrompt);
  EXPECT_EQ(stats.generated_tokens, kAnswer);
  EXPECT_EQ(stats.steps, kAnswer);
  EXPECT_EQ(stats.tokens_computed, kComputed);
  uint64_t reused = 0;
  for (uint64_t n = kPrompt + 1; n <= kComputed; ++n) reused += n - 1;
  EXPECT_EQ(stats.tokens_reused, reused);
  EXPECT_EQ(stats.query_key_products, kProductsPerPair * kComputed * (kComputed + 1) / 2);
  EXPECT_EQ(stats.kv_bytes, 3 * kFakeBlockBytes);
  const EngineStats total = fake.engine->Stats();
  EXPECT_EQ(total.tokens_computed, stats.tokens_computed);
  EXPECT_EQ(total.tokens_reused, stats.tokens_reused);
  EXPECT_EQ(total.query_key_products, stats.query_key_products);
  EXPECT_EQ(total.steps, stats.steps);
}

TEST(EngineTest, UncachedCountersAreThoseOfTheory) {
  for (const uint32_t chunk : {5u, 512u}) {
    EngineOptions options = FakeEngineOptions();
    options.prefill_chunk = chunk;
    options.cache.is_enabled = false;
    const FakeEngine fake = MakeFakeEngine(options);
    constexpr uint64_t kPrompt = 20, kAnswer = 15;

    const RequestStats stats = Ask(*fake.engine, {.prompt = Prompt(kPrompt), .max_tokens = kAnswer}).stats;

    uint64_t computed = 0, products = 0, steps = 0;
    for (uint64_t n = kPrompt; n < kPrompt + kAnswer; ++n) {
      computed += n;
      products += n * (n + 1) / 2;
      steps += (n + chunk - 1) / chunk;
    }
    EXPECT_EQ(stats.tokens_computed, computed);
    EXPECT_EQ(stats.tokens_reused, 0u);
    EXPECT_EQ(stats.query_key_products, kProductsPerPair * products);
    EXPECT_EQ(stats.steps, steps);
  }
}

TEST(EngineTest, ValuesThatTheCodecsCouldNotHoldAreCounted) {
  const FakeEngine fake = MakeFakeEngine(FakeEngineOptions(), [](FakeModel& model) { model.kv_values_lost = 3; });
  EXPECT_EQ(fake.engine->Stats().kv_values_lost, 0u);

  const RequestStats stats = Ask(*fake.engine, {.prompt = Prompt(20), .max_tokens = 5}).stats;

  EXPECT_EQ(fake.engine->Stats().kv_values_lost, 3 * stats.steps);
}

TEST(EngineTest, ChunksOfAPromptReuseTheOnesBefore) {
  EngineOptions options = FakeEngineOptions();
  options.prefill_chunk = 8;
  const FakeEngine fake = MakeFakeEngine(options);

  const RequestStats stats = Ask(*fake.engine, {.prompt = Prompt(20), .max_tokens = 0}).stats;

  EXPECT_EQ(stats.tokens_computed, 20u);
  EXPECT_EQ(stats.tokens_reused, 8u + 16u);
  EXPECT_EQ(stats.steps, 3u);
}

}  // namespace
}  // namespace kvern
