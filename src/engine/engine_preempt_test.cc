// Sequences that outgrow the budget together give their blocks up in turn: every answer stays that of its request
// alone, whether the second memory works or fails.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <random>
#include <vector>

#include "kvern/engine.h"
#include "tests/support/fake_engine.h"
#include "tests/support/fault_store.h"

namespace kvern {
namespace {

using ::testing::HasSubstr;

FakeEngine EngineWithStore(const EngineOptions& options, FaultStore::Faults faults = {},
                           const std::function<void(FakeModel&)>& prepare = {}) {
  return MakeFakeEngine(options, prepare, std::make_unique<FaultStore>(faults));
}

// Room for one and a half sequences of 20 + 100 tokens.
EngineOptions TightOptions() {
  EngineOptions options = FakeEngineOptions(/*context_tokens=*/128);
  options.cache.budget_bytes = 12 * kFakeBlockBytes;
  return options;
}

// The first pass waits until all four have come: on any machine they compete for the same blocks.
std::vector<Answer> AskFour(const FakeEngine& fake) {
  Gate gate;
  fake.model->on_forward = [&gate](const ForwardBatch&) { return gate.Pass(); };
  std::vector<TokenStream> streams;
  for (uint32_t i = 0; i < 4; ++i) {
    streams.push_back(fake.engine->Submit({.prompt = Prompt(20, i), .max_tokens = 100}).value());
  }
  gate.Open();
  std::vector<Answer> answers;
  for (TokenStream& stream : streams) answers.push_back(Drain(stream));
  return answers;
}

TEST(EnginePreemptTest, PreemptedSequencesGoOnWithTheSameBytes) {
  const FakeEngine fake = EngineWithStore(TightOptions());

  const std::vector<Answer> answers = AskFour(fake);

  for (uint32_t i = 0; i < 4; ++i) {
    EXPECT_EQ(answers[i].tokens, FakeGreedyAnswer(Prompt(20, i), 100)) << i;
    EXPECT_EQ(answers[i].stats.tokens_computed, 119u);
    EXPECT_EQ(answers[i].stats.tokens_recomputed, 0u);
    EXPECT_EQ(answers[i].stats.prompt_tokens_computed, 20u);
  }
  const EngineStats stats = fake.engine->Stats();
  EXPECT_EQ(answers[0].stats.num_preemptions, 0u);  // The oldest goes on.
  EXPECT_GE(stats.num_preemptions, 3u);
  EXPECT_GT(stats.spilled_bytes, 0u);
  EXPECT_EQ(stats.restored_bytes, stats.spilled_bytes);
  EXPECT_EQ(stats.tokens_computed, 4 * 119u);
  EXPECT_EQ(stats.tokens_recomputed, 0u);
  EXPECT_EQ(stats.cache.free_blocks, 12u);
  EXPECT_LE(stats.cache.peak_used_blocks, 12u);
}

TEST(EnginePreemptTest, WhatAFailedWriteLosesIsComputedAgain) {
  for (const uint64_t first : {0u, 1u, 2u, 5u, 9u}) {
    const FakeEngine fake = EngineWithStore(TightOptions(), {.first_failing_put = first});

    const std::vector<Answer> answers = AskFour(fake);

    for (uint32_t i = 0; i < 4; ++i) {
      EXPECT_EQ(answers[i].tokens, FakeGreedyAnswer(Prompt(20, i), 100)) << i << ", fault " << first;
      EXPECT_EQ(answers[i].stats.tokens_computed, 119u);
      EXPECT_EQ(answers[i].stats.prompt_tokens_computed, 20u);
    }
    EXPECT_GT(fake.engine->Stats().tokens_recomputed, 0u);
    EXPECT_EQ(fake.engine->Stats().tokens_computed, 4 * 119u);
  }
}

TEST(EnginePreemptTest, WhatAFailedReadLosesIsComputedAgain) {
  for (const uint64_t first : {0u, 1u, 3u, 6u}) {
    const FakeEngine fake = EngineWithStore(TightOptions(), {.first_failing_get = first});

    const std::vector<Answer> answers = AskFour(fake);

    for (uint32_t i = 0; i < 4; ++i) {
      EXPECT_EQ(answers[i].tokens, FakeGreedyAnswer(Prompt(20, i), 100)) << i << ", fault " << first;
    }
    EXPECT_GT(fake.engine->Stats().tokens_recomputed, 0u);
  }
}

TEST(EnginePreemptTest, MoreRunAtOnceThanTheirLongestCoursesAllow) {
  size_t most_at_once = 0;
  Gate gate;  // The first pass waits until all have come.
  EngineOptions options = TightOptions();
  options.prefill_chunk = 100;
  const FakeEngine fake = EngineWithStore(options, {}, [&](FakeModel& model) {
    model.on_forward = [&](const ForwardBatch& batch) {
      most_at_once = std::max(most_at_once, batch.sequences.size());
      return gate.Pass();
    };
  });
  std::vector<TokenStream> streams;
  for (uint32_t i = 0; i < 4; ++i) {
    streams.push_back(fake.engine->Submit({.prompt = Prompt(20, i), .max_tokens = 100}).value());
  }
  gate.Open();

  for (uint32_t i = 0; i < 4; ++i) EXPECT_EQ(Drain(streams[i]).tokens, FakeGreedyAnswer(Prompt(20, i), 100));

  EXPECT_EQ(most_at_once, 4u);  // 2 prompt blocks and 1 to grow each.
}

TEST(EnginePreemptTest, PreemptedSequencesCanBeCancelled) {
  for (int num_passes = 20; num_passes < 80; num_passes += 7) {
    Gate gate;
    const FakeEngine fake = EngineWithStore(TightOptions(), {}, [&gate](FakeModel& model) {
      model.on_forward = [&gate](const ForwardBatch&) { return gate.Pass(); };
    });
    std::vector<TokenStream> streams;
    for (uint32_t i = 0; i < 4; ++i) {
      streams.push_back(fake.engine->Submit({.prompt = Prompt(20, i), .max_tokens = 100}).value());
    }
    for (int i = 0; i < num_passes; ++i) {
      gate.AwaitArrival();
      gate.LetOnePass();
    }
    gate.AwaitArrival();

    streams[3].Cancel();
    streams[2].Cancel();
    gate.Open();

    EXPECT_EQ(Drain(streams[0]).tokens, FakeGreedyAnswer(Prompt(20, 0), 100));
    EXPECT_EQ(Drain(streams[1]).tokens, FakeGreedyAnswer(Prompt(20, 1), 100));
    EXPECT_EQ(Drain(streams[2]).reason, FinishReason::kCancelled);
    EXPECT_EQ(Drain(streams[3]).reason, FinishReason::kCancelled);
    EXPECT_EQ(fake.engine->Stats().cache.free_blocks, 12u);
  }
}

// Its own blocks may be evicted while it waits, those that others hold as well are no room for it: it needs a place for
// every block that it left in the store.
TEST(EnginePreemptTest, ASequenceComesBackBesideOthersThatShareItsPrompt) {
  EngineOptions options = TightOptions();
  options.cache.reuses_prefixes = true;
  const FakeEngine fake = EngineWithStore(options);
  Gate gate;
  fake.model->on_forward = [&gate](const ForwardBatch&) { return gate.Pass(); };
  std::vector<TokenStream> streams;
  for (uint32_t i = 0; i < 5; ++i) {
    std::vector<TokenId> prompt = Prompt(48);
    prompt.push_back(static_cast<TokenId>(i + 1));
    streams.push_back(fake.engine->Submit({.prompt = prompt, .max_tokens = 40 + 10 * (i % 3)}).value());
  }
  gate.Open();

  for (uint32_t i = 0; i < 5; ++i) {
    std::vector<TokenId> prompt = Prompt(48);
    prompt.push_back(static_cast<TokenId>(i + 1));
    EXPECT_EQ(Drain(streams[i]).tokens, FakeGreedyAnswer(prompt, 40 + 10 * (i % 3))) << i;
  }

  const EngineStats stats = fake.engine->Stats();
  EXPECT_GT(stats.restored_bytes, 0u);
  EXPECT_EQ(stats.tokens_recomputed, 0u);
  EXPECT_EQ(stats.prefix.duplicate_blocks, 0u);  // What comes back was not computed.
  EXPECT_EQ(stats.prefix.lookups, 5u);           // Coming back is not beginning.
}

// The older one generates what the prompt of the other goes on with, and has come past that when the other is resumed.
TEST(EnginePreemptTest, WhatOthersComputeOfAPreemptedPromptIsFound) {
  EngineOptions options = FakeEngineOptions(/*context_tokens=*/128);
  options.cache.reuses_prefixes = true;
  options.cache.overcommits = true;
  options.prefill_chunk = 1;
  const FakeEngine fake = MakeFakeEngine(options);  // Eight blocks.
  Gate gate;
  fake.model->on_forward = [&gate](const ForwardBatch&) { return gate.Pass(); };
  std::vector<TokenId> longer = Prompt(16);
  for (const TokenId token : FakeGreedyAnswer(Prompt(16), 40)) longer.push_back(token);
  for (const TokenId token : Prompt(40, 9)) longer.push_back(token);  // Together too long to run beside the first.
  TokenStream first = fake.engine->Submit({.prompt = Prompt(16), .max_tokens = 110}).value();
  TokenStream second = fake.engine->Submit({.prompt = longer, .max_tokens = 4}).value();
  gate.Open();

  EXPECT_EQ(Drain(first).tokens, FakeGreedyAnswer(Prompt(16), 110));
  const Answer answer = Drain(second);

  EXPECT_EQ(answer.tokens, FakeGreedyAnswer(longer, 4));
  EXPECT_GE(answer.stats.num_preemptions, 1u);
  EXPECT_GT(answer.stats.prompt_tokens_found, 30u);     // 16 when it began.
  EXPECT_GT(answer.stats.prompt_tokens_computed, 41u);  // And some before it was preempted.
  EXPECT_EQ(answer.stats.prompt_tokens_found + answer.stats.prompt_tokens_computed, 96u);
  EXPECT_EQ(answer.stats.prompt_tokens_first_time, answer.stats.prompt_tokens_computed);
  EXPECT_EQ(answer.stats.tokens_recomputed, 0u);
  EXPECT_EQ(fake.engine->Stats().prefix.lookups, 2u);
}

// Single requests, groups and scores in any order, windows or not, with a store that may fail at any call.
TEST(EnginePreemptTest, RandomSchedulesGiveEveryAnswer) {
  uint64_t num_preemptions = 0;
  for (uint32_t seed = 0; seed < 20; ++seed) {
    std::mt19937 random(seed);
    EngineOptions options = FakeEngineOptions(/*context_tokens=*/128);
    options.cache.budget_bytes = (26 + random() % 30) * kFakeBlockBytes;
    options.max_sequences = 5 + random() % 20;
    options.max_queued = 1000;
    options.prefill_chunk = 1 + random() % 60;
    if (seed % 3 == 1) {
      options.cache.window_tokens = 48;
      options.cache.num_sinks = 4;
    }
    FaultStore::Faults faults;
    if (seed % 4 == 1) faults.first_failing_put = random() % 40;
    if (seed % 4 == 2) faults.first_failing_get = random() % 40;
    const FakeEngine fake = EngineWithStore(options, faults);
    const FakeEngine plain = MakeFakeEngine(options);
    std::vector<std::pair<Request, TokenStream>> asked;
    for (int i = 0; i < 20; ++i) {
      Request request{.prompt = Prompt(1 + random() % 60, i), .max_tokens = static_cast<uint32_t>(random() % 60)};
      request.sampling.temperature = 1;
      request.sampling.seed = random();
      std::vector<TokenStream> streams =
          fake.engine->SubmitChoices(request, random() % 4 == 0 ? 1 + random() % 3 : 1).value();
      for (TokenStream& stream : streams) {
        asked.emplace_back(request, std::move(stream));
        ++request.choice_index;
      }
    }
    const std::vector<TokenScore> scores = fake.engine->Score({.tokens = Prompt(80)}).value();

    for (auto& [request, stream] : asked) {
      const Answer answer = Drain(stream);
      ASSERT_TRUE(answer.status.ok()) << answer.status.ToString();
      ASSERT_EQ(answer.tokens, Ask(*plain.engine, request).tokens) << "schedule " << seed;
    }
    EXPECT_EQ(scores.back().log_prob, plain.engine->Score({.tokens = Prompt(80)})->back().log_prob);
    EXPECT_EQ(fake.engine->Stats().cache.free_blocks, fake.engine->Stats().cache.total_blocks);
    num_preemptions += fake.engine->Stats().num_preemptions;
  }
  EXPECT_GT(num_preemptions, 20u);
}

TEST(EnginePreemptTest, WhatCanNeverFitIsRefusedWithAdvice) {
  const FakeEngine fake = EngineWithStore(TightOptions());

  const Status status = fake.engine->SubmitChoices({.prompt = Prompt(20), .max_tokens = 100}, 3).status();

  EXPECT_EQ(status.code(), StatusCode::kResourceExhausted);
  EXPECT_THAT(status.message(), HasSubstr("--kv-budget"));
  EXPECT_THAT(status.message(), HasSubstr("--window"));
}

}  // namespace
}  // namespace kvern
