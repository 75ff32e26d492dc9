#include "kvern/engine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <future>
#include <limits>
#include <vector>

#include "tests/support/fake_engine.h"

namespace kvern {
namespace {

using ::testing::HasSubstr;
using ::testing::SizeIs;

double ReferenceLogProb(std::span<const TokenId> before, TokenId token) {
  const std::vector<float> logits = FakeLogits(before);
  double sum = 0;
  for (const float logit : logits) sum += std::exp(static_cast<double>(logit));
  return static_cast<double>(logits[static_cast<size_t>(token)]) - std::log(sum);
}

TEST(EngineScoreTest, ScoresAreTheLogarithmsOfTheProbabilities) {
  const std::vector<TokenId> tokens = Prompt(100);
  for (const uint32_t chunk : {1u, 7u, 64u}) {
    for (const uint32_t first : {1u, 2u, 60u, 99u}) {
      EngineOptions options = FakeEngineOptions();
      options.prefill_chunk = chunk;
      const FakeEngine fake = MakeFakeEngine(options);

      const auto scores = fake.engine->Score({.tokens = tokens, .first_scored = first});

      ASSERT_TRUE(scores.ok());
      ASSERT_THAT(*scores, SizeIs(100 - first));
      for (uint32_t i = first; i < 100; ++i) {
        const std::span<const TokenId> before(tokens.data(), i);
        EXPECT_NEAR((*scores)[i - first].log_prob, ReferenceLogProb(before, tokens[i]), 1e-5);
        EXPECT_EQ((*scores)[i - first].most_likely, FakeGreedyAnswer({before.begin(), before.end()}, 1)[0]);
      }
      EXPECT_EQ(fake.engine->Stats().tokens_computed, 99u);
      EXPECT_EQ(fake.engine->Stats().query_key_products, kProductsPerPair * 99 * 100 / 2);
      EXPECT_EQ(fake.engine->Stats().cache.free_blocks, 16u);
    }
  }
}

TEST(EngineScoreTest, BesideAStreamStepsAreAsShortAsThoseOfPrompts) {
  EngineOptions options = FakeEngineOptions();
  options.prefill_chunk = 100;
  options.cache.budget_bytes = 64 * kFakeBlockBytes;
  Gate gate;
  std::vector<uint32_t> rows_of_score;
  const FakeEngine fake = MakeFakeEngine(options, [&](FakeModel& model) {
    model.on_forward = [&](const ForwardBatch& batch) {
      if (batch.logit_rows.size() > 1) rows_of_score.push_back(batch.sequences[0].num_rows);
      return gate.Pass();
    };
  });
  auto scores = std::async(std::launch::async, [&] { return fake.engine->Score({.tokens = Prompt(256)}); });
  gate.AwaitArrival();
  TokenStream stream = fake.engine->Submit({.prompt = Prompt(5), .max_tokens = 100}).value();
  gate.Open();
  Drain(stream);

  ASSERT_TRUE(scores.get().ok());

  EXPECT_THAT(rows_of_score, testing::ElementsAre(100, 64, 64, 27));  // The budget's first guess is 64.
}

TEST(EngineScoreTest, ProgressIsToldAndMayCancel) {
  EngineOptions options = FakeEngineOptions();
  options.prefill_chunk = 10;
  const FakeEngine fake = MakeFakeEngine(options);
  uint64_t last = 0;

  const auto all = fake.engine->Score({.tokens = Prompt(50)}, [&](uint64_t done) {
    EXPECT_GT(done, last);
    last = done;
    return true;
  });
  const auto none = fake.engine->Score({.tokens = Prompt(50)}, [](uint64_t) { return false; });

  EXPECT_TRUE(all.ok());
  EXPECT_EQ(last, 50u);
  ASSERT_FALSE(none.ok());
  EXPECT_EQ(none.status().code(), StatusCode::kCancelled);
  EXPECT_EQ(fake.engine->Stats().cache.free_blocks, 16u);
}

TEST(EngineScoreTest, WorkersGiveTheSameScores) {
  EngineOptions options = FakeEngineOptions();
  const FakeEngine alone = MakeFakeEngine(options);
  options.num_threads = 3;
  const FakeEngine fake = MakeFakeEngine(options);

  const auto expected = alone.engine->Score({.tokens = Prompt(90)});
  const auto scores = fake.engine->Score({.tokens = Prompt(90)});

  ASSERT_TRUE(expected.ok() && scores.ok());
  for (size_t i = 0; i < 89; ++i) {
    EXPECT_EQ((*scores)[i].log_prob, (*expected)[i].log_prob);
    EXPECT_EQ((*scores)[i].most_likely, (*expected)[i].most_likely);
  }
}

TEST(EngineScoreTest, BadInputIsRefusedWithTheNumbers) {
  const FakeEngine fake = MakeFakeEngine(FakeEngineOptions(/*context_tokens=*/50));
  const auto refused = [&](const ScoreRequest& request) {
    const auto scores = fake.engine->Score(request);
    EXPECT_EQ(scores.status().code(), StatusCode::kInvalidArgument);
    return scores.status().message();
  };

  EXPECT_THAT(refused({.tokens = {1}}), HasSubstr("1 to score"));
  EXPECT_THAT(refused({.tokens = {1, 2}, .first_scored = 0}), HasSubstr("first_scored is 0, expected 1 to 1"));
  EXPECT_THAT(refused({.tokens = {1, 2}, .first_scored = 2}), HasSubstr("first_scored is 2"));
  EXPECT_THAT(refused({.tokens = Prompt(51)}), HasSubstr("51 tokens is longer than the context of 50"));
  EXPECT_THAT(refused({.tokens = {1, 99}}), HasSubstr("tokens[1] is token 99"));
}

TEST(EngineScoreTest, LogitsThatAreNotFiniteAreAnErrorThatSaysWhere) {
  const FakeEngine fake = MakeFakeEngine(FakeEngineOptions(), [](FakeModel& model) {
    model.on_logits = [](std::span<const TokenId> tokens, std::span<float> logits) {
      if (tokens.size() == 6) logits[9] = std::numeric_limits<float>::quiet_NaN();
    };
  });

  const auto scores = fake.engine->Score({.tokens = Prompt(20)});

  ASSERT_FALSE(scores.ok());
  EXPECT_EQ(scores.status().code(), StatusCode::kCorruption);
  EXPECT_THAT(scores.status().message(), HasSubstr("after token 5"));
}

TEST(EngineScoreTest, AFailedPassIsReported) {
  const FakeEngine fake = MakeFakeEngine(FakeEngineOptions(), [](FakeModel& model) {
    model.on_forward = [](const ForwardBatch&) { return Status::ResourceExhausted("no step buffers"); };
  });

  const auto scores = fake.engine->Score({.tokens = Prompt(20)});

  ASSERT_FALSE(scores.ok());
  EXPECT_EQ(scores.status().message(), "no step buffers");
}

TEST(EngineScoreTest, RequestsGoOnBesideAScore) {
  EngineOptions options = FakeEngineOptions();
  options.prefill_chunk = 4;
  options.cache.budget_bytes = 64 * kFakeBlockBytes;
  const FakeEngine fake = MakeFakeEngine(options);

  auto scores = std::async(std::launch::async, [&] { return fake.engine->Score({.tokens = Prompt(200)}); });
  const Answer answer = Ask(*fake.engine, {.prompt = Prompt(10), .max_tokens = 30});

  EXPECT_EQ(answer.tokens, FakeGreedyAnswer(Prompt(10), 30));
  EXPECT_TRUE(scores.get().ok());
}

}  // namespace
}  // namespace kvern
