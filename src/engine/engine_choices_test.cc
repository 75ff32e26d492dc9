// Several answers to one prompt that is computed once: Engine::SubmitChoices.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <utility>
#include <vector>

#include "kvern/engine.h"
#include "tests/support/fake_engine.h"

namespace kvern {
namespace {

using ::testing::HasSubstr;
using ::testing::SizeIs;

// Room for a group with answers of its own length; blocks of 16.
EngineOptions RoomyOptions() {
  EngineOptions options = FakeEngineOptions();
  options.cache.budget_bytes = 100 * kFakeBlockBytes;
  return options;
}

Request DrawnRequest(size_t prompt_tokens, uint32_t max_tokens) {
  Request request{.prompt = Prompt(prompt_tokens), .max_tokens = max_tokens};
  request.sampling.temperature = 1;
  request.sampling.repeat_penalty = 1.1f;  // Adjusts logits that the others see too.
  request.sampling.logit_bias = {{5, 1.0f}};
  request.sampling.seed = 3;
  return request;
}

Answer AnswerAlone(Request request, uint32_t i) {
  const FakeEngine alone = MakeFakeEngine(FakeEngineOptions());
  request.choice_index += i;
  return Ask(*alone.engine, std::move(request));
}

std::vector<Answer> DrainAll(std::vector<TokenStream>& streams) {
  std::vector<Answer> answers;
  for (TokenStream& stream : streams) answers.push_back(Drain(stream));
  return answers;
}

TEST(EngineChoicesTest, EachAnswerIsThatOfItsRequestAlone) {
  for (const size_t prompt_tokens : {1u, 5u, 16u, 32u, 40u, 97u}) {
    for (const bool is_greedy : {false, true}) {
      const FakeEngine fake = MakeFakeEngine(RoomyOptions());
      Request request = DrawnRequest(prompt_tokens, 30);
      request.choice_index = 2;
      if (is_greedy) request.sampling = {};

      std::vector<TokenStream> streams = fake.engine->SubmitChoices(request, 4).value();
      const std::vector<Answer> answers = DrainAll(streams);

      ASSERT_THAT(answers, SizeIs(4));
      for (uint32_t i = 0; i < 4; ++i) {
        const Answer expected = AnswerAlone(request, i);
        EXPECT_EQ(answers[i].tokens, expected.tokens) << prompt_tokens << " tokens, answer " << i;
        EXPECT_EQ(answers[i].text, expected.text);
        EXPECT_EQ(answers[i].reason, expected.reason);
      }
      if (!is_greedy) {
        EXPECT_NE(answers[0].tokens, answers[1].tokens);
      }
      EXPECT_EQ(fake.engine->Stats().cache.free_blocks, 100u);
    }
  }
}

TEST(EngineChoicesTest, LogitsOfEveryStepAreThoseOfTheRequestAlone) {
  std::vector<std::pair<std::vector<TokenId>, std::vector<float>>> seen;
  const auto record = [&seen](FakeModel& model) {
    model.on_logits = [&seen](std::span<const TokenId> tokens, std::span<float> logits) {
      seen.emplace_back(std::vector(tokens.begin(), tokens.end()), std::vector(logits.begin(), logits.end()));
    };
  };
  FakeEngine fake = MakeFakeEngine(RoomyOptions(), record);

  std::vector<TokenStream> streams = fake.engine->SubmitChoices(DrawnRequest(40, 20), 3).value();
  const std::vector<Answer> answers = DrainAll(streams);
  fake.engine.reset();

  EXPECT_EQ(seen.size(), 1u + 3 * 19);  // The prompt once, then each token but the last.
  for (const auto& [tokens, logits] : seen) EXPECT_EQ(logits, FakeLogits(tokens));
}

TEST(EngineChoicesTest, ThePromptIsComputedOnceAndItsFullBlocksAreShared) {
  EngineOptions options = RoomyOptions();
  options.max_sequences = 5;
  const FakeEngine fake = MakeFakeEngine(options);

  // 2 full blocks of the prompt, then 8 tokens of it and 9 of the answer: 2 blocks of each one's own.
  std::vector<TokenStream> streams = fake.engine->SubmitChoices(DrawnRequest(40, 10), 5).value();
  const std::vector<Answer> answers = DrainAll(streams);

  EXPECT_EQ(answers[0].stats.prompt_tokens_computed, 40u);
  EXPECT_EQ(answers[0].stats.prompt_tokens_reused, 0u);
  EXPECT_EQ(answers[0].stats.tokens_computed, 49u);
  for (size_t i = 1; i < 5; ++i) {
    EXPECT_EQ(answers[i].stats.prompt_tokens_computed, 0u);
    EXPECT_EQ(answers[i].stats.prompt_tokens_reused, 40u);
    EXPECT_EQ(answers[i].stats.tokens_computed, 9u);
    EXPECT_EQ(answers[i].stats.query_key_products, kProductsPerPair * (49 * 50 - 40 * 41) / 2);
    EXPECT_EQ(answers[i].stats.kv_bytes, 4 * kFakeBlockBytes);
  }
  const EngineStats stats = fake.engine->Stats();
  EXPECT_EQ(stats.tokens_computed, 40u + 5 * 9);
  EXPECT_EQ(stats.steps, 2u + 9);
  EXPECT_EQ(stats.cache.peak_used_blocks, 2u + 5 * 2);
}

TEST(EngineChoicesTest, DecodingStepsNameWhatTheAnswersShare) {
  std::vector<SharedPrefix> last;
  size_t num_named = 0;
  FakeEngine fake = MakeFakeEngine(RoomyOptions(), [&](FakeModel& model) {
    model.on_forward = [&](const ForwardBatch& batch) {
      num_named += batch.shared_prefixes.empty() ? 0 : 1;
      if (!batch.shared_prefixes.empty()) last.assign(batch.shared_prefixes.begin(), batch.shared_prefixes.end());
      return Status::Ok();
    };
  });

  std::vector<TokenStream> streams = fake.engine->SubmitChoices(DrawnRequest(40, 10), 3).value();
  DrainAll(streams);
  fake.engine.reset();

  EXPECT_EQ(num_named, 9u);
  ASSERT_THAT(last, SizeIs(1));
  EXPECT_EQ(last[0].first_sequence, 0u);
  EXPECT_EQ(last[0].num_sequences, 3u);
  EXPECT_EQ(last[0].num_tokens, 32u);
}

TEST(EngineChoicesTest, AnyAnswerMayBeCancelledWhileThePromptIsComputed) {
  EngineOptions options = RoomyOptions();
  options.prefill_chunk = 8;
  for (uint32_t cancelled = 0; cancelled < 3; ++cancelled) {
    for (int num_passes = 0; num_passes < 6; ++num_passes) {  // The prompt takes 5.
      Gate gate;
      const FakeEngine fake = GatedEngine(options, gate);
      std::vector<TokenStream> streams = fake.engine->SubmitChoices(DrawnRequest(40, 10), 3).value();
      for (int i = 0; i < num_passes; ++i) {
        gate.AwaitArrival();
        gate.LetOnePass();
      }
      gate.AwaitArrival();

      streams[cancelled].Cancel();
      gate.Open();
      const std::vector<Answer> answers = DrainAll(streams);

      for (uint32_t i = 0; i < 3; ++i) {
        if (i == cancelled) {
          EXPECT_EQ(answers[i].reason, FinishReason::kCancelled);
          continue;
        }
        EXPECT_EQ(answers[i].tokens, AnswerAlone(DrawnRequest(40, 10), i).tokens) << cancelled << ", " << num_passes;
        EXPECT_EQ(answers[i].stats.prompt_tokens_computed + answers[i].stats.prompt_tokens_reused, 40u);
      }
      const EngineStats stats = fake.engine->Stats();
      EXPECT_LE(stats.tokens_computed, 40u + 3 * 9);  // No prompt token twice.
      EXPECT_EQ(stats.cache.free_blocks, 100u);
    }
  }
}

TEST(EngineChoicesTest, AllAnswersMayBeCancelledAndWaitingOnesToo) {
  EngineOptions options = RoomyOptions();
  options.max_sequences = 3;
  options.prefill_chunk = 8;
  Gate gate;
  const FakeEngine fake = GatedEngine(options, gate);
  std::vector<TokenStream> running = fake.engine->SubmitChoices(DrawnRequest(40, 10), 3).value();
  std::vector<TokenStream> waiting = fake.engine->SubmitChoices(DrawnRequest(20, 10), 3).value();
  gate.AwaitArrival();

  for (TokenStream& stream : running) stream.Cancel();
  waiting[0].Cancel();
  gate.Open();

  for (const Answer& answer : DrainAll(running)) EXPECT_EQ(answer.reason, FinishReason::kCancelled);
  const std::vector<Answer> answers = DrainAll(waiting);
  EXPECT_EQ(answers[0].reason, FinishReason::kCancelled);
  EXPECT_EQ(answers[0].stats.steps, 0u);
  EXPECT_EQ(answers[1].tokens, AnswerAlone(DrawnRequest(20, 10), 1).tokens);
  EXPECT_EQ(answers[1].stats.prompt_tokens_computed, 20u);
  EXPECT_EQ(answers[2].stats.prompt_tokens_reused, 20u);
  EXPECT_EQ(fake.engine->Stats().cache.free_blocks, 100u);
}

TEST(EngineChoicesTest, AnswersEndWhereTheyEnd) {
  const FakeEngine fake = MakeFakeEngine(RoomyOptions());
  Request request = DrawnRequest(20, 60);
  request.stop = {"a", "b", "c", "d", "e"};

  std::vector<TokenStream> streams = fake.engine->SubmitChoices(request, 6).value();
  const std::vector<Answer> answers = DrainAll(streams);

  std::vector<size_t> lengths;
  for (uint32_t i = 0; i < 6; ++i) {
    EXPECT_EQ(answers[i].tokens, AnswerAlone(request, i).tokens);
    lengths.push_back(answers[i].tokens.size());
  }
  EXPECT_NE(*std::ranges::min_element(lengths), *std::ranges::max_element(lengths));
}

TEST(EngineChoicesTest, APromptThatOnlyFillsTheCacheEndsAllAnswers) {
  const FakeEngine fake = MakeFakeEngine(RoomyOptions());

  std::vector<TokenStream> streams = fake.engine->SubmitChoices(DrawnRequest(40, 0), 3).value();

  for (const Answer& answer : DrainAll(streams)) {
    EXPECT_THAT(answer.tokens, SizeIs(0));
    EXPECT_EQ(answer.reason, FinishReason::kLength);
    EXPECT_TRUE(answer.status.ok());
  }
  EXPECT_EQ(fake.engine->Stats().tokens_computed, 40u);
}

TEST(EngineChoicesTest, WithoutTheCacheEachAnswerRunsOnItsOwn) {
  EngineOptions options = RoomyOptions();
  options.cache.is_enabled = false;
  const FakeEngine fake = MakeFakeEngine(options);

  std::vector<TokenStream> streams = fake.engine->SubmitChoices(DrawnRequest(20, 5), 3).value();
  const std::vector<Answer> answers = DrainAll(streams);

  for (uint32_t i = 0; i < 3; ++i) {
    EXPECT_EQ(answers[i].tokens, AnswerAlone(DrawnRequest(20, 5), i).tokens);
    EXPECT_EQ(answers[i].stats.tokens_computed, 20u + 21 + 22 + 23 + 24);
    EXPECT_EQ(answers[i].stats.prompt_tokens_computed, 20u);
    EXPECT_EQ(answers[i].stats.prompt_tokens_reused, 0u);
  }
}

TEST(EngineChoicesTest, AGroupThatFitsOnlyBecauseItSharesIsAdmitted) {
  // 4 blocks of the prompt and 1 block for each answer: 7 blocks; 3 x 5 without sharing.
  EngineOptions options = FakeEngineOptions(/*context_tokens=*/80);
  options.cache.budget_bytes = 7 * kFakeBlockBytes;
  const FakeEngine fake = MakeFakeEngine(options);

  std::vector<TokenStream> streams = fake.engine->SubmitChoices(DrawnRequest(64, 16), 3).value();
  const std::vector<Answer> answers = DrainAll(streams);
  const Result<std::vector<TokenStream>> refused = fake.engine->SubmitChoices(DrawnRequest(64, 16), 4);

  for (uint32_t i = 0; i < 3; ++i) EXPECT_EQ(answers[i].tokens, AnswerAlone(DrawnRequest(64, 16), i).tokens);
  EXPECT_EQ(fake.engine->Stats().cache.peak_used_blocks, 7u);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.status().code(), StatusCode::kResourceExhausted);
  EXPECT_THAT(refused.status().message(), HasSubstr("4 answers"));
  EXPECT_THAT(refused.status().message(), HasSubstr(std::to_string(8 * kFakeBlockBytes) + " bytes"));
  EXPECT_THAT(refused.status().message(), HasSubstr(std::to_string(7 * kFakeBlockBytes)));
}

TEST(EngineChoicesTest, CountsOutsideTheLimitsAreRefusedWithTheNumbers) {
  EngineOptions options = RoomyOptions();
  options.max_sequences = 4;
  options.max_queued = 1;
  Gate gate;
  const FakeEngine fake = GatedEngine(options, gate);
  const auto refused = [&](Request request, uint32_t count) {
    return fake.engine->SubmitChoices(std::move(request), count).status().ToString();
  };
  Request last = DrawnRequest(4, 1);
  last.choice_index = ~uint32_t{0} - 1;

  EXPECT_THAT(refused(DrawnRequest(4, 1), 0), HasSubstr("0 answers"));
  EXPECT_THAT(refused(DrawnRequest(4, 1), 5), HasSubstr("5 answers to one prompt, expected 1 to 4"));
  EXPECT_THAT(refused(last, 3), HasSubstr("choice_index"));
  EXPECT_THAT(refused({}, 2), HasSubstr("no tokens"));
  std::vector<TokenStream> running = fake.engine->SubmitChoices(DrawnRequest(4, 1), 3).value();
  EXPECT_THAT(refused(DrawnRequest(4, 1), 3), HasSubstr("3 requests run or wait, limit 5; 3 more came"));
  EXPECT_EQ(fake.engine->Stats().queued_requests, 3u);
  gate.Open();
  EXPECT_THAT(DrainAll(running), SizeIs(3));
}

TEST(EngineChoicesTest, AFailedPassEndsTheAnswerThatRanItAndTheNextTakesOver) {
  int num_passes = 0;
  EngineOptions options = RoomyOptions();
  options.prefill_chunk = 16;
  const FakeEngine fake = MakeFakeEngine(options, [&](FakeModel& model) {
    model.on_forward = [&](const ForwardBatch&) {
      return ++num_passes == 2 ? Status::ResourceExhausted("no step buffers") : Status::Ok();
    };
  });

  std::vector<TokenStream> streams = fake.engine->SubmitChoices(DrawnRequest(40, 5), 2).value();
  const std::vector<Answer> answers = DrainAll(streams);

  EXPECT_EQ(answers[0].status.code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(answers[1].tokens, AnswerAlone(DrawnRequest(40, 5), 1).tokens);
  EXPECT_EQ(answers[1].stats.prompt_tokens_reused, 16u);
  EXPECT_EQ(answers[1].stats.prompt_tokens_computed, 24u);
}

// Groups and single requests of all shapes come, are cancelled and end in any order, in a budget that makes them wait.
TEST(EngineChoicesTest, RandomSchedulesGiveEveryAnswerAndAllBlocksBack) {
  for (uint32_t seed = 0; seed < 12; ++seed) {
    std::mt19937 random(seed);
    EngineOptions options = FakeEngineOptions(/*context_tokens=*/128);
    options.cache.budget_bytes = (20 + random() % 40) * kFakeBlockBytes;
    options.max_sequences = 5 + random() % 20;
    options.max_queued = 1000;
    options.prefill_chunk = 1 + random() % 60;
    options.num_threads = seed % 3;
    const FakeEngine fake = MakeFakeEngine(options);
    struct Asked {
      Request request;
      uint32_t index;
      TokenStream stream;
      bool is_cancelled;
    };
    std::vector<Asked> asked;
    for (int i = 0; i < 25; ++i) {
      Request request = DrawnRequest(1 + random() % 90, random() % 30);
      request.sampling.seed = random();
      if (random() % 3 == 0) request.sampling = {};
      std::vector<TokenStream> streams = fake.engine->SubmitChoices(request, 1 + random() % 5).value();
      for (uint32_t c = 0; c < streams.size(); ++c) {
        asked.push_back({request, c, std::move(streams[c]), random() % 5 == 0});
      }
      Asked& one = asked[random() % asked.size()];
      if (one.is_cancelled) one.stream.Cancel();
    }

    for (Asked& one : asked) {
      if (one.is_cancelled) one.stream.Cancel();
    }
    for (Asked& one : asked) {
      const Answer answer = Drain(one.stream);
      ASSERT_TRUE(answer.status.ok()) << answer.status.ToString();
      if (one.is_cancelled) continue;
      ASSERT_EQ(answer.stats.prompt_tokens_computed + answer.stats.prompt_tokens_reused, one.request.prompt.size());
      ASSERT_EQ(answer.tokens, AnswerAlone(one.request, one.index).tokens) << "schedule " << seed;
    }

    const EngineStats stats = fake.engine->Stats();
    EXPECT_EQ(stats.cache.free_blocks, stats.cache.total_blocks);
    EXPECT_EQ(stats.running_sequences, 0u);
    EXPECT_EQ(stats.queued_requests, 0u);
  }
}

TEST(EngineChoicesTest, SixtyFourSequencesRunAtOnceAndGetTheirOwnAnswers) {
  EngineOptions options = FakeEngineOptions();
  options.max_sequences = 64;
  options.prefill_chunk = 4096;
  options.num_threads = 2;
  options.cache.budget_bytes = 64 * 4 * kFakeBlockBytes;
  size_t most_at_once = 0;
  Gate gate;
  FakeEngine fake = MakeFakeEngine(options, [&](FakeModel& model) {
    model.on_forward = [&](const ForwardBatch& batch) {
      most_at_once = std::max(most_at_once, batch.sequences.size());
      return gate.Pass();
    };
  });

  std::vector<TokenStream> streams;
  for (uint32_t i = 0; i < 56; ++i) {
    streams.push_back(fake.engine->Submit({.prompt = Prompt(1 + i % 40, i), .max_tokens = 20}).value());
  }
  std::vector<TokenStream> group = fake.engine->SubmitChoices(DrawnRequest(33, 20), 8).value();
  gate.AwaitArrival();
  gate.Open();
  const std::vector<Answer> answers = DrainAll(streams);
  const std::vector<Answer> group_answers = DrainAll(group);
  fake.engine.reset();

  EXPECT_EQ(most_at_once, 64u);
  for (uint32_t i = 0; i < 56; ++i) EXPECT_EQ(answers[i].tokens, FakeGreedyAnswer(Prompt(1 + i % 40, i), 20)) << i;
  for (uint32_t i = 0; i < 8; ++i) EXPECT_EQ(group_answers[i].tokens, AnswerAlone(DrawnRequest(33, 20), i).tokens);
}

}  // namespace
}  // namespace kvern
