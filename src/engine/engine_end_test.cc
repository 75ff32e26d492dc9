#include "kvern/engine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/support/fake_engine.h"

namespace kvern {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

TEST(EngineEndTest, ZeroTokensOnlyFillTheCache) {
  const FakeEngine fake = MakeFakeEngine(FakeEngineOptions());

  const Answer answer = Ask(*fake.engine, {.prompt = Prompt(40), .max_tokens = 0});

  EXPECT_THAT(answer.tokens, IsEmpty());
  EXPECT_EQ(answer.reason, FinishReason::kLength);
  EXPECT_EQ(answer.stats.tokens_computed, 40u);
  EXPECT_EQ(answer.stats.kv_bytes, 3 * kFakeBlockBytes);
}

TEST(EngineEndTest, AFullContextEndsTheAnswer) {
  const FakeEngine fake = MakeFakeEngine(FakeEngineOptions(/*context_tokens=*/50));

  const Answer answer = Ask(*fake.engine, {.prompt = Prompt(40), .max_tokens = 1000});

  EXPECT_EQ(answer.tokens, FakeGreedyAnswer(Prompt(40), 10));
  EXPECT_EQ(answer.reason, FinishReason::kLength);
}

TEST(EngineEndTest, APromptThatFillsTheContextLeavesNoRoomForAnAnswer) {
  const FakeEngine fake = MakeFakeEngine(FakeEngineOptions(/*context_tokens=*/50));

  const Answer answer = Ask(*fake.engine, {.prompt = Prompt(50), .max_tokens = 5});

  EXPECT_THAT(answer.tokens, IsEmpty());
  EXPECT_EQ(answer.reason, FinishReason::kLength);
}

TEST(EngineEndTest, EndOfTextEndsTheAnswerUnlessAskedOtherwise) {
  const auto prefer_eos_at_45 = [](FakeModel& model) {
    model.on_logits = [](std::span<const TokenId> tokens, std::span<float> logits) {
      if (tokens.size() == 45) logits[kFakeEos] = 100;
    };
  };
  const FakeEngine fake = MakeFakeEngine(FakeEngineOptions(), prefer_eos_at_45);

  const Answer ended = Ask(*fake.engine, {.prompt = Prompt(40), .max_tokens = 20});
  const Answer kept = Ask(*fake.engine, {.prompt = Prompt(40), .max_tokens = 20, .ends_at_eos = false});

  EXPECT_EQ(ended.tokens, FakeGreedyAnswer(Prompt(40), 5));
  EXPECT_EQ(ended.reason, FinishReason::kEndOfText);
  EXPECT_EQ(ended.stats.generated_tokens, 5u);
  EXPECT_THAT(kept.tokens, SizeIs(20));
  EXPECT_EQ(kept.tokens[5], kFakeEos);
  EXPECT_EQ(kept.reason, FinishReason::kLength);
}

// A model that answers with the tokens of `script` in order.
std::function<void(FakeModel&)> Script(std::vector<TokenId> script, size_t prompt_tokens) {
  return [=](FakeModel& model) {
    model.on_logits = [=](std::span<const TokenId> tokens, std::span<float> logits) {
      const size_t i = tokens.size() - prompt_tokens;
      if (i < script.size()) logits[static_cast<size_t>(script[i])] = 100;
    };
  };
}

Request StoppedRequest(uint32_t max_tokens, std::vector<std::string> stop) {
  Request request{.prompt = Prompt(2), .max_tokens = max_tokens};
  request.stop = std::move(stop);
  return request;
}

TEST(EngineEndTest, StopStringAcrossTokensEndsTheAnswerBeforeIt) {
  // a b c d e f with stop "cde": "ab" comes, "cd" waits and is dropped.
  const FakeEngine fake = MakeFakeEngine(FakeEngineOptions(), Script({1, 2, 3, 4, 5, 6}, 2));
  TokenStream stream = fake.engine->Submit(StoppedRequest(6, {"xx", "cde"})).value();

  std::vector<std::string> texts;
  while (const auto event = stream.Next()) texts.push_back(event->text);

  EXPECT_THAT(texts, ElementsAre("a", "b", "", "", ""));
  EXPECT_EQ(stream.finish_reason(), FinishReason::kStopString);
  EXPECT_EQ(stream.stats().generated_tokens, 5u);
}

TEST(EngineEndTest, HeldTextComesAtTheEnd) {
  const FakeEngine fake = MakeFakeEngine(FakeEngineOptions(), Script({1, 3, 4}, 2));
  TokenStream stream = fake.engine->Submit(StoppedRequest(3, {"cde"})).value();

  std::vector<std::pair<TokenId, std::string>> events;
  while (const auto event = stream.Next()) events.emplace_back(event->token, event->text);

  EXPECT_THAT(events, ElementsAre(std::pair(1, "a"), std::pair(3, ""), std::pair(4, ""), std::pair(-1, "cd")));
  EXPECT_EQ(stream.finish_reason(), FinishReason::kLength);
}

TEST(EngineEndTest, CharactersAreNeverCutAndStopStringsMayHoldThem) {
  // é in two tokens, then é again and b: stop "éb".
  const FakeEngine fake = MakeFakeEngine(FakeEngineOptions(), Script({27, 28, 27, 28, 2, 1}, 2));
  TokenStream stream = fake.engine
                           ->Submit(StoppedRequest(6, {"\xC3\xA9"
                                                       "b"}))
                           .value();

  std::vector<std::string> texts;
  while (const auto event = stream.Next()) texts.push_back(event->text);

  EXPECT_THAT(texts, ElementsAre("", "", "", "\xC3\xA9", ""));
  EXPECT_EQ(stream.finish_reason(), FinishReason::kStopString);
}

TEST(EngineEndTest, ACharacterCutByTheEndBecomesAReplacement) {
  const FakeEngine fake = MakeFakeEngine(FakeEngineOptions(), Script({1, 27}, 2));

  const Answer answer = Ask(*fake.engine, {.prompt = Prompt(2), .max_tokens = 2});

  EXPECT_EQ(answer.text, "a\xEF\xBF\xBD");
}

TEST(EngineEndTest, CancelStopsAtTheNextStepAndKeepsTheTextSoFar) {
  Gate gate;
  const FakeEngine fake = GatedEngine(FakeEngineOptions(), gate);
  TokenStream stream = fake.engine->Submit({.prompt = Prompt(10), .max_tokens = 100}).value();
  gate.AwaitArrival();
  gate.LetOnePass();
  gate.AwaitArrival();

  stream.Cancel();
  gate.Open();
  const Answer answer = Drain(stream);

  EXPECT_EQ(answer.tokens, FakeGreedyAnswer(Prompt(10), 2));
  EXPECT_EQ(answer.reason, FinishReason::kCancelled);
  EXPECT_TRUE(answer.status.ok());
  EXPECT_EQ(fake.engine->Stats().cache.free_blocks, 16u);
}

TEST(EngineEndTest, CountersAreThoseOfTheTokenThatWasReadHoweverFarTheEngineIs) {
  const FakeEngine fake = MakeFakeEngine(FakeEngineOptions());
  TokenStream stream = fake.engine->Submit({.prompt = Prompt(10), .max_tokens = 5}).value();
  Ask(*fake.engine, {.prompt = Prompt(10), .max_tokens = 20});  // Ends long after it.

  EXPECT_EQ(stream.stats().tokens_computed, 0u);
  for (uint64_t i = 0; i < 5; ++i) {
    ASSERT_TRUE(stream.Next().has_value());
    EXPECT_EQ(stream.stats().generated_tokens, i + 1);
    EXPECT_EQ(stream.stats().tokens_computed, 10 + i);
    EXPECT_EQ(stream.stats().query_key_products, kProductsPerPair * (10 + i) * (11 + i) / 2);
    EXPECT_EQ(stream.stats().kv_bytes, 0u);
  }
  EXPECT_FALSE(stream.Next().has_value());
  EXPECT_EQ(stream.stats().tokens_computed, 14u);
  EXPECT_EQ(stream.stats().kv_bytes, kFakeBlockBytes);
}

TEST(EngineEndTest, AWaitingRequestCanBeCancelled) {
  EngineOptions options = FakeEngineOptions();
  options.max_sequences = 1;
  Gate gate;
  const FakeEngine fake = GatedEngine(options, gate);
  TokenStream running = fake.engine->Submit({.prompt = Prompt(10), .max_tokens = 3}).value();
  gate.AwaitArrival();
  TokenStream waiting = fake.engine->Submit({.prompt = Prompt(10), .max_tokens = 3}).value();

  waiting.Cancel();
  gate.Open();

  const Answer answer = Drain(waiting);
  EXPECT_EQ(answer.reason, FinishReason::kCancelled);
  EXPECT_EQ(answer.stats.steps, 0u);
  EXPECT_THAT(Drain(running).tokens, SizeIs(3));
}

TEST(EngineEndTest, ADroppedStreamCancelsItsRequest) {
  Gate gate;
  const FakeEngine fake = GatedEngine(FakeEngineOptions(), gate);
  {
    const TokenStream dropped = fake.engine->Submit({.prompt = Prompt(10), .max_tokens = 200}).value();
    gate.AwaitArrival();
  }
  gate.Open();

  const Answer next = Ask(*fake.engine, {.prompt = Prompt(250), .max_tokens = 1});

  EXPECT_EQ(next.reason, FinishReason::kLength);
  EXPECT_LT(fake.engine->Stats().steps, 20u);
}

TEST(EngineEndTest, TheEndOfTheEngineCancelsWhatRunsAndWaits) {
  EngineOptions options = FakeEngineOptions();
  options.max_sequences = 1;
  Gate gate;
  FakeEngine fake = GatedEngine(options, gate);
  TokenStream running = fake.engine->Submit({.prompt = Prompt(10), .max_tokens = 200}).value();
  TokenStream waiting = fake.engine->Submit({.prompt = Prompt(10), .max_tokens = 200}).value();
  gate.AwaitArrival();

  std::thread opener([&gate] { gate.Open(); });
  fake.engine.reset();
  opener.join();

  EXPECT_EQ(Drain(running).reason, FinishReason::kCancelled);
  EXPECT_EQ(Drain(waiting).reason, FinishReason::kCancelled);
}

TEST(EngineEndTest, MovedStreamsCarryTheRequest) {
  const FakeEngine fake = MakeFakeEngine(FakeEngineOptions());
  TokenStream first = fake.engine->Submit({.prompt = Prompt(4), .max_tokens = 3}).value();

  TokenStream second = std::move(first);

  EXPECT_FALSE(first.Next().has_value());
  EXPECT_EQ(Drain(second).tokens, FakeGreedyAnswer(Prompt(4), 3));
}

}  // namespace
}  // namespace kvern
