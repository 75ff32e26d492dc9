#include "kvern/engine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <thread>
#include <vector>

#include "tests/support/fake_engine.h"

namespace kvern {
namespace {

using ::testing::HasSubstr;
using ::testing::SizeIs;

TEST(EngineLimitsTest, BadRequestsAreRefusedWithTheNumbers) {
  const FakeEngine fake = MakeFakeEngine(FakeEngineOptions(/*context_tokens=*/50));
  Engine& engine = *fake.engine;
  const auto refused = [&](Request request) {
    const Result<TokenStream> stream = engine.Submit(std::move(request));
    EXPECT_EQ(stream.status().code(), StatusCode::kInvalidArgument);
    return stream.status().message();
  };

  EXPECT_THAT(refused({}), HasSubstr("no tokens"));
  EXPECT_THAT(refused({.prompt = Prompt(51)}), HasSubstr("51 tokens is longer than the context of 50"));
  EXPECT_THAT(refused({.prompt = {1, 2, 64}}), HasSubstr("prompt[2] is token 64, the vocabulary has 64"));
  EXPECT_THAT(refused({.prompt = {1, -1}}), HasSubstr("prompt[1] is token -1"));
  Request request{.prompt = {1}};
  request.sampling.logit_bias = {{1, 1.0f}, {70, 1.0f}};
  EXPECT_THAT(refused(request), HasSubstr("logit_bias[1] is token 70"));
  request.sampling.top_p = 2;
  EXPECT_THAT(refused(request), HasSubstr("top_p is 2"));
  EXPECT_EQ(engine.Stats().queued_requests, 0u);
}

TEST(EngineLimitsTest, APromptThatOnlyTheBudgetForbidsSaysTheBytes) {
  EngineOptions options = FakeEngineOptions(/*context_tokens=*/200);
  options.cache.budget_bytes = 3 * kFakeBlockBytes;
  const FakeEngine fake = MakeFakeEngine(options);

  const Result<TokenStream> stream = fake.engine->Submit({.prompt = Prompt(100)});

  EXPECT_EQ(fake.engine->options().context_tokens, 48u);
  ASSERT_FALSE(stream.ok());
  EXPECT_EQ(stream.status().code(), StatusCode::kResourceExhausted);
  EXPECT_THAT(stream.status().message(), HasSubstr(std::to_string(7 * kFakeBlockBytes) + " bytes"));
  EXPECT_THAT(stream.status().message(), HasSubstr(std::to_string(3 * kFakeBlockBytes) + " bytes"));
  EXPECT_THAT(stream.status().message(), HasSubstr("48 tokens"));
}

TEST(EngineLimitsTest, RequestsThatDoNotFitTogetherRunOneAfterTheOther) {
  EngineOptions options = FakeEngineOptions(/*context_tokens=*/64);
  options.cache.budget_bytes = 4 * kFakeBlockBytes;
  size_t most_at_once = 0;
  const FakeEngine fake = MakeFakeEngine(options, [&](FakeModel& model) {
    model.on_forward = [&](const ForwardBatch& batch) {
      most_at_once = std::max(most_at_once, batch.sequences.size());
      return Status::Ok();
    };
  });

  std::vector<TokenStream> streams;
  for (uint32_t i = 0; i < 6; ++i) {
    streams.push_back(fake.engine->Submit({.prompt = Prompt(20, i), .max_tokens = 29}).value());
  }
  for (uint32_t i = 0; i < 6; ++i) EXPECT_EQ(Drain(streams[i]).tokens, FakeGreedyAnswer(Prompt(20, i), 29));

  EXPECT_EQ(most_at_once, 1u);  // 48 slots of 64.
  EXPECT_EQ(fake.engine->Stats().cache.peak_used_blocks, 3u);
}

TEST(EngineLimitsTest, AFullQueueRefusesWithTheNumbers) {
  EngineOptions options = FakeEngineOptions();
  options.max_sequences = 1;
  options.max_queued = 2;
  Gate gate;
  const FakeEngine fake = GatedEngine(options, gate);
  std::vector<TokenStream> streams;
  for (int i = 0; i < 3; ++i) streams.push_back(fake.engine->Submit({.prompt = Prompt(4), .max_tokens = 1}).value());

  const Result<TokenStream> refused = fake.engine->Submit({.prompt = Prompt(4)});

  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.status().code(), StatusCode::kUnavailable);
  EXPECT_THAT(refused.status().message(), HasSubstr("3 requests run or wait, limit 3"));
  gate.Open();
  for (TokenStream& stream : streams) EXPECT_THAT(Drain(stream).tokens, SizeIs(1));
  EXPECT_THAT(Ask(*fake.engine, {.prompt = Prompt(4), .max_tokens = 1}).tokens, SizeIs(1));
}

TEST(EngineLimitsTest, AFailedPassEndsItsRequestsAndOnlyThose) {
  int num_passes = 0;
  const FakeEngine fake = MakeFakeEngine(FakeEngineOptions(), [&](FakeModel& model) {
    model.on_forward = [&](const ForwardBatch&) {
      return ++num_passes == 3 ? Status::ResourceExhausted("no step buffers") : Status::Ok();
    };
  });

  const Answer failed = Ask(*fake.engine, {.prompt = Prompt(4), .max_tokens = 10});
  const Answer next = Ask(*fake.engine, {.prompt = Prompt(4), .max_tokens = 10});

  EXPECT_EQ(failed.tokens, FakeGreedyAnswer(Prompt(4), 2));
  EXPECT_EQ(failed.reason, FinishReason::kNone);
  EXPECT_EQ(failed.status.code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(failed.status.message(), "no step buffers");
  EXPECT_THAT(next.tokens, SizeIs(10));
  EXPECT_EQ(fake.engine->Stats().cache.free_blocks, 16u);
}

TEST(EngineLimitsTest, LogitsThatAreNotFiniteEndTheRequest) {
  const FakeEngine fake = MakeFakeEngine(FakeEngineOptions(), [](FakeModel& model) {
    model.on_logits = [](std::span<const TokenId> tokens, std::span<float> logits) {
      if (tokens.size() == 6) std::ranges::fill(logits, std::numeric_limits<float>::quiet_NaN());
    };
  });

  const Answer answer = Ask(*fake.engine, {.prompt = Prompt(4), .max_tokens = 10});

  EXPECT_THAT(answer.tokens, SizeIs(2));
  EXPECT_EQ(answer.status.code(), StatusCode::kCorruption);
  EXPECT_THAT(answer.status.message(), HasSubstr("no finite logit"));
}

TEST(EngineLimitsTest, ManyThreadsMaySubmitCancelAndAskAtOnce) {
  EngineOptions options = FakeEngineOptions();
  options.cache.budget_bytes = 20 * kFakeBlockBytes;
  options.max_sequences = 3;
  const FakeEngine fake = MakeFakeEngine(options);

  std::vector<std::thread> clients;
  for (uint32_t client = 0; client < 4; ++client) {
    clients.emplace_back([&fake, client] {
      for (uint32_t i = 0; i < 15; ++i) {
        const std::vector<TokenId> prompt = Prompt(1 + (client * 31 + i * 17) % 60, client);
        TokenStream stream = fake.engine->Submit({.prompt = prompt, .max_tokens = 20}).value();
        if (i % 4 == 1) stream.Cancel();
        if (i % 4 == 2) continue;
        const Answer answer = Drain(stream);
        if (i % 4 != 1) {
          EXPECT_EQ(answer.tokens, FakeGreedyAnswer(prompt, 20));
        }
        EXPECT_LE(fake.engine->Stats().running_sequences, 3u);
      }
      const auto scores = fake.engine->Score({.tokens = Prompt(30, client)});
      EXPECT_TRUE(scores.ok());
    });
  }
  for (std::thread& client : clients) client.join();

  EXPECT_THAT(Ask(*fake.engine, {.prompt = Prompt(4), .max_tokens = 1}).tokens, SizeIs(1));
}

}  // namespace
}  // namespace kvern
