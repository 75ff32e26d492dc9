#include "kvern/engine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <future>
#include <limits>
#include <semaphore>
#include <thread>

#include "tests/support/fake_engine.h"

namespace kvern {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr uint64_t kFakeBlockBytes = 2ull * 2 * 16 * 16 * 4 * 2;  // Layers, heads, slots, dims, bytes, K and V.
constexpr uint64_t kProductsPerPair = 2 * kFakeHeads;             // Layers x heads.

std::vector<TokenId> Prompt(size_t n, uint32_t seed = 1) {
  std::vector<TokenId> tokens(n);
  for (size_t i = 0; i < n; ++i) tokens[i] = static_cast<TokenId>(1 + (i * 7 + seed * 13 + i * i * seed) % 60);
  return tokens;
}

struct Answer {
  std::vector<TokenId> tokens;
  std::string text;
  FinishReason reason;
  Status status;
  RequestStats stats;
};

Answer Drain(TokenStream& stream) {
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

Answer Ask(Engine& engine, Request request) {
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

FakeEngine GatedEngine(EngineOptions options, Gate& gate) {
  return MakeFakeEngine(options, [&gate](FakeModel& model) {
    model.on_forward = [&gate](const ForwardBatch&) { return gate.Pass(); };
  });
}

// ---- exactness of what the model sees

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

  EXPECT_THAT(steps, ElementsAre(ElementsAre(3), ElementsAre(1, 8), ElementsAre(1, 4, 4), ElementsAre(1, 5)));
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

  TokenStream first = fake.engine->Submit({.prompt = {1, 1, 1, 1, 1, 1}, .max_tokens = 2}).value();
  gate.AwaitArrival();
  TokenStream second = fake.engine->Submit({.prompt = {2, 2, 2, 2, 2, 2}, .max_tokens = 2}).value();
  gate.Open();
  Drain(first);
  Drain(second);

  EXPECT_THAT(rows, ElementsAre(std::pair(1, 6u), std::pair(2, 6u), std::pair(1, 2u), std::pair(2, 7u)));
}

// ---- counters

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

TEST(EngineTest, ChunksOfAPromptReuseTheOnesBefore) {
  EngineOptions options = FakeEngineOptions();
  options.prefill_chunk = 8;
  const FakeEngine fake = MakeFakeEngine(options);

  const RequestStats stats = Ask(*fake.engine, {.prompt = Prompt(20), .max_tokens = 0}).stats;

  EXPECT_EQ(stats.tokens_computed, 20u);
  EXPECT_EQ(stats.tokens_reused, 8u + 16u);
  EXPECT_EQ(stats.steps, 3u);
}

// ---- ends

TEST(EngineTest, ZeroTokensOnlyFillTheCache) {
  const FakeEngine fake = MakeFakeEngine(FakeEngineOptions());

  const Answer answer = Ask(*fake.engine, {.prompt = Prompt(40), .max_tokens = 0});

  EXPECT_THAT(answer.tokens, IsEmpty());
  EXPECT_EQ(answer.reason, FinishReason::kLength);
  EXPECT_EQ(answer.stats.tokens_computed, 40u);
  EXPECT_EQ(answer.stats.kv_bytes, 3 * kFakeBlockBytes);
}

TEST(EngineTest, AFullContextEndsTheAnswer) {
  const FakeEngine fake = MakeFakeEngine(FakeEngineOptions(/*context_tokens=*/50));

  const Answer answer = Ask(*fake.engine, {.prompt = Prompt(40), .max_tokens = 1000});

  EXPECT_EQ(answer.tokens, FakeGreedyAnswer(Prompt(40), 10));
  EXPECT_EQ(answer.reason, FinishReason::kLength);
}

TEST(EngineTest, APromptThatFillsTheContextLeavesNoRoomForAnAnswer) {
  const FakeEngine fake = MakeFakeEngine(FakeEngineOptions(/*context_tokens=*/50));

  const Answer answer = Ask(*fake.engine, {.prompt = Prompt(50), .max_tokens = 5});

  EXPECT_THAT(answer.tokens, IsEmpty());
  EXPECT_EQ(answer.reason, FinishReason::kLength);
}

TEST(EngineTest, EndOfTextEndsTheAnswerUnlessAskedOtherwise) {
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

TEST(EngineTest, StopStringAcrossTokensEndsTheAnswerBeforeIt) {
  // a b c d e f with stop "cde": "ab" comes, "cd" waits and is dropped.
  const FakeEngine fake = MakeFakeEngine(FakeEngineOptions(), Script({1, 2, 3, 4, 5, 6}, 2));
  TokenStream stream = fake.engine->Submit(StoppedRequest(6, {"xx", "cde"})).value();

  std::vector<std::string> texts;
  while (const auto event = stream.Next()) texts.push_back(event->text);

  EXPECT_THAT(texts, ElementsAre("a", "b", "", "", ""));
  EXPECT_EQ(stream.finish_reason(), FinishReason::kStopString);
  EXPECT_EQ(stream.stats().generated_tokens, 5u);
}

TEST(EngineTest, HeldTextComesAtTheEnd) {
  const FakeEngine fake = MakeFakeEngine(FakeEngineOptions(), Script({1, 3, 4}, 2));
  TokenStream stream = fake.engine->Submit(StoppedRequest(3, {"cde"})).value();

  std::vector<std::pair<TokenId, std::string>> events;
  while (const auto event = stream.Next()) events.emplace_back(event->token, event->text);

  EXPECT_THAT(events, ElementsAre(std::pair(1, "a"), std::pair(3, ""), std::pair(4, ""), std::pair(-1, "cd")));
  EXPECT_EQ(stream.finish_reason(), FinishReason::kLength);
}

TEST(EngineTest, CharactersAreNeverCutAndStopStringsMayHoldThem) {
  // é in two tokens, then é again and b: stop "éb".
  const FakeEngine fake = MakeFakeEngine(FakeEngineOptions(), Script({27, 28, 27, 28, 2, 1}, 2));
  TokenStream stream = fake.engine->Submit(StoppedRequest(6, {"\xC3\xA9" "b"})).value();

  std::vector<std::string> texts;
  while (const auto event = stream.Next()) texts.push_back(event->text);

  EXPECT_THAT(texts, ElementsAre("", "", "", "\xC3\xA9", ""));
  EXPECT_EQ(stream.finish_reason(), FinishReason::kStopString);
}

TEST(EngineTest, ACharacterCutByTheEndBecomesAReplacement) {
  const FakeEngine fake = MakeFakeEngine(FakeEngineOptions(), Script({1, 27}, 2));

  const Answer answer = Ask(*fake.engine, {.prompt = Prompt(2), .max_tokens = 2});

  EXPECT_EQ(answer.text, "a\xEF\xBF\xBD");
}

TEST(EngineTest, CancelStopsAtTheNextStepAndKeepsTheTextSoFar) {
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

TEST(EngineTest, AWaitingRequestCanBeCancelled) {
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

TEST(EngineTest, ADroppedStreamCancelsItsRequest) {
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

TEST(EngineTest, TheEndOfTheEngineCancelsWhatRunsAndWaits) {
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

TEST(EngineTest, MovedStreamsCarryTheRequest) {
  const FakeEngine fake = MakeFakeEngine(FakeEngineOptions());
  TokenStream first = fake.engine->Submit({.prompt = Prompt(4), .max_tokens = 3}).value();

  TokenStream second = std::move(first);

  EXPECT_FALSE(first.Next().has_value());
  EXPECT_EQ(Drain(second).tokens, FakeGreedyAnswer(Prompt(4), 3));
}

// ---- limits

TEST(EngineTest, BadRequestsAreRefusedWithTheNumbers) {
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

TEST(EngineTest, APromptThatOnlyTheBudgetForbidsSaysTheBytes) {
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

TEST(EngineTest, RequestsThatDoNotFitTogetherRunOneAfterTheOther) {
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

TEST(EngineTest, AFullQueueRefusesWithTheNumbers) {
  EngineOptions options = FakeEngineOptions();
  options.max_sequences = 1;
  options.max_queued = 2;
  Gate gate;
  const FakeEngine fake = GatedEngine(options, gate);
  std::vector<TokenStream> streams;
  for (int i = 0; i < 3; ++i) streams.push_back(fake.engine->Submit({.prompt = Prompt(4), .max_tokens = 1}).value());

  const Result<TokenStream> refused = fake.engine->Submit({.prompt = Prompt(4)});

  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.status().code(), StatusCode::kResourceExhausted);
  EXPECT_THAT(refused.status().message(), HasSubstr("3 requests run or wait, limit 3"));
  gate.Open();
  for (TokenStream& stream : streams) EXPECT_THAT(Drain(stream).tokens, SizeIs(1));
  EXPECT_THAT(Ask(*fake.engine, {.prompt = Prompt(4), .max_tokens = 1}).tokens, SizeIs(1));
}

TEST(EngineTest, AFailedPassEndsItsRequestsAndOnlyThose) {
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

TEST(EngineTest, LogitsThatAreNotFiniteEndTheRequest) {
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

TEST(EngineTest, ManyThreadsMaySubmitCancelAndAskAtOnce) {
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

// ---- scoring

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
