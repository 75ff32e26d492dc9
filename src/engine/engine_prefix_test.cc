// Sequences that begin alike: what stands in the cache is not computed again, the answers are those of each request
// alone, and it is told why tokens had to be computed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <set>
#include <string>
#include <vector>

#include "tests/support/fake_engine.h"

namespace kvern {
namespace {

EngineOptions PrefixOptions(uint64_t num_blocks, uint32_t context_tokens = 256) {
  EngineOptions options = FakeEngineOptions(context_tokens);
  options.cache.reuses_prefixes = true;
  options.cache.budget_bytes = num_blocks * kFakeBlockBytes;
  return options;
}

Request Asking(std::vector<TokenId> prompt, uint32_t max_tokens = 4) {
  return {.prompt = std::move(prompt), .max_tokens = max_tokens, .ends_at_eos = false};
}

std::vector<TokenId> Joined(std::vector<TokenId> a, const std::vector<TokenId>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

uint64_t SumOfCauses(const RequestStats& s) {
  return s.prompt_tokens_found + s.prompt_tokens_first_time + s.prompt_tokens_evicted + s.prompt_tokens_diverged +
         s.prompt_tokens_last;
}

TEST(EnginePrefixTest, ASecondRequestComputesOnlyTheLastTokenOfItsPrompt) {
  const FakeEngine fake = MakeFakeEngine(PrefixOptions(16));
  const Answer first = Ask(*fake.engine, Asking(Prompt(70)));

  const Answer second = Ask(*fake.engine, Asking(Prompt(70)));

  EXPECT_EQ(second.tokens, first.tokens);
  EXPECT_EQ(first.stats.prompt_tokens_first_time, 70u);
  EXPECT_EQ(second.stats.prompt_tokens_found, 69u);
  EXPECT_EQ(second.stats.prompt_tokens_computed, 1u);
  EXPECT_EQ(second.stats.prompt_tokens_last, 1u);
}

TEST(EnginePrefixTest, TheNextTurnOfAChatFindsTheAnswerToo) {
  const FakeEngine fake = MakeFakeEngine(PrefixOptions(16));
  const Answer first = Ask(*fake.engine, Asking(Prompt(40), 10));
  const std::vector<TokenId> next = Joined(Joined(Prompt(40), first.tokens), Prompt(7, 3));

  const Answer second = Ask(*fake.engine, Asking(next));

  // The last token of an answer is drawn and never computed.
  EXPECT_EQ(second.stats.prompt_tokens_found, 49u);
  EXPECT_EQ(second.stats.prompt_tokens_computed, 8u);
  EXPECT_EQ(second.tokens, FakeGreedyAnswer(next, 4));
}

TEST(EnginePrefixTest, ADivergenceSaysWhereAndFromWhat) {
  const FakeEngine fake = MakeFakeEngine(PrefixOptions(16));
  Ask(*fake.engine, Asking(Prompt(60)));
  std::vector<TokenId> other = Prompt(60);
  other[37] = other[37] == 5 ? 6 : 5;

  TokenStream stream = fake.engine->Submit(Asking(other)).value();
  const Answer answer = Drain(stream);

  EXPECT_EQ(answer.stats.prompt_tokens_found, 37u);
  EXPECT_EQ(answer.stats.prompt_tokens_diverged, 23u);
  ASSERT_TRUE(stream.divergence().has_value());
  EXPECT_EQ(stream.divergence()->position, 37u);
  EXPECT_EQ(stream.divergence()->block_begin, 32u);
  EXPECT_EQ(stream.divergence()->tokens[5], Prompt(60)[37]);
  EXPECT_EQ(stream.divergence()->prompt[5], other[37]);
}

TEST(EnginePrefixTest, WhatHadToMakeRoomIsCountedAsEvicted) {
  const FakeEngine fake = MakeFakeEngine(PrefixOptions(8, 112));
  Ask(*fake.engine, Asking(Prompt(100)));
  Ask(*fake.engine, Asking(Prompt(100, 2)));

  const Answer again = Ask(*fake.engine, Asking(Prompt(100)));

  EXPECT_GT(again.stats.prompt_tokens_evicted, 60u);
  EXPECT_EQ(SumOfCauses(again.stats), 100u);
  EXPECT_GT(fake.engine->Stats().prefix.evicted_blocks, 0u);
  EXPECT_EQ(again.tokens, FakeGreedyAnswer(Prompt(100), 4));
}

TEST(EnginePrefixTest, SaltsShareNothing) {
  const FakeEngine fake = MakeFakeEngine(PrefixOptions(32));
  Request request = Asking(Prompt(70));
  request.cache_salt = "a";
  Ask(*fake.engine, request);
  request.cache_salt = "b";

  const Answer other = Ask(*fake.engine, request);

  EXPECT_EQ(other.stats.prompt_tokens_found, 0u);
  EXPECT_EQ(other.stats.prompt_tokens_first_time, 70u);
  const std::vector<TenantHolding> holdings = fake.engine->Holdings();
  ASSERT_EQ(holdings.size(), 2u);
  EXPECT_EQ(holdings[0].tokens, 73u);
  EXPECT_EQ(holdings[1].tokens, 73u);
}

TEST(EnginePrefixTest, ARequestWaitsForAnotherThatComputesItsPrompt) {
  Gate gate;
  EngineOptions options = PrefixOptions(64);
  const FakeEngine fake = GatedEngine(options, gate);
  TokenStream first = fake.engine->Submit(Asking(Prompt(100))).value();
  gate.AwaitArrival();
  TokenStream second = fake.engine->Submit(Asking(Joined(Prompt(96), Prompt(5, 9)))).value();
  gate.Open();

  Drain(first);
  const Answer answer = Drain(second);

  EXPECT_EQ(answer.stats.prompt_tokens_found, 96u);
  EXPECT_EQ(fake.engine->Stats().prefix.duplicate_blocks, 0u);
}

TEST(EnginePrefixTest, WhoeverWaitsTakesOverFromACancelledOne) {
  Gate gate;
  const FakeEngine fake = GatedEngine(PrefixOptions(64), gate);
  auto first = std::make_unique<TokenStream>(fake.engine->Submit(Asking(Prompt(100))).value());
  gate.AwaitArrival();
  TokenStream second = fake.engine->Submit(Asking(Prompt(100))).value();
  first->Cancel();
  gate.Open();

  const Answer answer = Drain(second);

  EXPECT_EQ(answer.stats.prompt_tokens_found, 32u);  // One step of the first.
  EXPECT_EQ(answer.tokens, FakeGreedyAnswer(Prompt(100), 4));
}

TEST(EnginePrefixTest, AnAnswerThatTakesThePromptOverCountsTheRestByCause) {
  for (const bool reuses_prefixes : {true, false}) {
    Gate gate;
    EngineOptions options = PrefixOptions(64);
    options.cache.reuses_prefixes = reuses_prefixes;
    const FakeEngine fake = GatedEngine(options, gate);
    std::vector<TokenStream> streams = fake.engine->SubmitChoices(Asking(Prompt(100)), 3).value();
    gate.AwaitArrival();
    streams[0].Cancel();
    gate.Open();

    const Answer second = Drain(streams[1]), third = Drain(streams[2]);

    EXPECT_EQ(second.stats.prompt_tokens_found, 32u);  // One step of the first.
    EXPECT_EQ(second.stats.prompt_tokens_computed, 68u);
    EXPECT_EQ(second.stats.prompt_tokens_first_time, 68u);
    EXPECT_EQ(third.stats.prompt_tokens_found, 100u);
    EXPECT_EQ(SumOfCauses(third.stats), 100u);
  }
}

TEST(EnginePrefixTest, AKeptPromptOutlivesOthersAndIsLetGoForWhoeverNeedsAllRoom) {
  EngineOptions options = PrefixOptions(16);
  options.cache.pin_limit_bytes = 8 * kFakeBlockBytes;
  const FakeEngine fake = MakeFakeEngine(options);
  Request kept = Asking(Prompt(64), 1);
  kept.keep_seconds = 3600;
  Ask(*fake.engine, kept);
  EXPECT_EQ(fake.engine->Stats().prefix.pinned_bytes, 4 * kFakeBlockBytes);
  for (uint32_t seed = 2; seed < 8; ++seed) Ask(*fake.engine, Asking(Prompt(150, seed)));
  EXPECT_EQ(Ask(*fake.engine, Asking(Prompt(64))).stats.prompt_tokens_found, 63u);

  const Answer all = Ask(*fake.engine, Asking(Prompt(250, 9)));

  EXPECT_TRUE(all.status.ok());
  EXPECT_EQ(fake.engine->Stats().prefix.pinned_bytes, 0u);
}

TEST(EnginePrefixTest, ClearingLetsIdleBlocksGo) {
  const FakeEngine fake = MakeFakeEngine(PrefixOptions(16));
  Ask(*fake.engine, Asking(Prompt(70)));

  EXPECT_EQ(fake.engine->ClearCache("nobody"), 0u);
  EXPECT_EQ(fake.engine->ClearCache(""), 5 * kFakeBlockBytes);

  EXPECT_EQ(Ask(*fake.engine, Asking(Prompt(70))).stats.prompt_tokens_found, 0u);
}

TEST(EnginePrefixTest, ClearingEndsWhatWasKeptForATime) {
  EngineOptions options = PrefixOptions(16);
  options.cache.pin_limit_bytes = 16 * kFakeBlockBytes;
  const FakeEngine fake = MakeFakeEngine(options);
  for (const char* const salt : {"a", "b"}) {
    Request request = Asking(Prompt(64), 1);
    request.cache_salt = salt;
    request.keep_seconds = 3600;
    Ask(*fake.engine, request);
  }

  EXPECT_EQ(fake.engine->ClearCache("a"), 4 * kFakeBlockBytes);

  EXPECT_EQ(fake.engine->Stats().prefix.pinned_bytes, 4 * kFakeBlockBytes);
  EXPECT_EQ(fake.engine->Stats().cache.free_blocks, 12u);
}

TEST(EnginePrefixTest, TheTenantWithTheFewestRunningGoesFirst) {
  EngineOptions options = PrefixOptions(64);
  options.max_sequences = 2;
  Gate gate;
  std::vector<TokenId> order;  // First token of each prompt, as it is computed.
  const FakeEngine fake = MakeFakeEngine(options, [&](FakeModel& model) {
    model.on_forward = [&](const ForwardBatch& batch) {
      for (const SequenceRows& rows : batch.sequences) {
        if (rows.first_position == 0) order.push_back(batch.tokens[rows.first_row]);
      }
      return gate.Pass();
    };
  });
  std::vector<TokenStream> streams;
  const auto submit = [&](TokenId first_token, const char* tenant) {
    Request request = Asking({first_token, 7, 8}, 3);
    request.tenant = tenant;
    streams.push_back(fake.engine->Submit(request).value());
  };
  submit(1, "a");
  gate.AwaitArrival();
  submit(2, "a");
  submit(3, "b");
  gate.Open();
  for (TokenStream& stream : streams) Drain(stream);

  EXPECT_THAT(order, testing::ElementsAre(1, 3, 2));
}

TEST(EnginePrefixTest, AShortPromptWaitsForOneStepOfALongOne) {
  Gate gate;
  std::vector<size_t> passes;  // Sequences in each.
  const FakeEngine fake = MakeFakeEngine(PrefixOptions(64), [&](FakeModel& model) {
    model.on_forward = [&](const ForwardBatch& batch) {
      passes.push_back(batch.sequences.size());
      return gate.Pass();
    };
  });
  TokenStream longer = fake.engine->Submit(Asking(Prompt(200), 1)).value();
  gate.AwaitArrival();
  TokenStream shorter = fake.engine->Submit(Asking(Prompt(5, 9), 1)).value();
  gate.Open();

  const Answer answer = Drain(shorter);
  Drain(longer);

  EXPECT_EQ(answer.tokens, FakeGreedyAnswer(Prompt(5, 9), 1));
  EXPECT_THAT(passes, testing::ElementsAre(1, 2, 1, 1, 1, 1, 1));  // 32 rows, then 5 and 27, then 32 each.
}

TEST(EnginePrefixTest, HoweverManyLongPromptsATenantSendsTheShortOneOfAnotherWaitsAStep) {
  Gate gate;
  std::vector<std::vector<TokenId>> passes;  // The first token of each row of a prompt.
  const FakeEngine fake = MakeFakeEngine(PrefixOptions(64), [&](FakeModel& model) {
    model.on_forward = [&](const ForwardBatch& batch) {
      passes.emplace_back();
      for (const SequenceRows& rows : batch.sequences) passes.back().push_back(batch.tokens[rows.first_row]);
      return gate.Pass();
    };
  });
  std::vector<TokenStream> streams;
  const auto submit = [&](TokenId token, size_t num_tokens, const char* tenant) {
    Request request = Asking(std::vector<TokenId>(num_tokens, token), 1);
    request.tenant = tenant;
    streams.push_back(fake.engine->Submit(request).value());
  };
  submit(1, 100, "a");
  gate.AwaitArrival();
  for (const TokenId token : {2, 3, 4}) submit(token, 100, "a");
  gate.LetOnePass();
  gate.AwaitArrival();
  submit(9, 5, "b");
  gate.Open();
  for (TokenStream& stream : streams) Drain(stream);

  ASSERT_GT(passes.size(), 4u);
  EXPECT_THAT(passes[0], testing::ElementsAre(1));
  EXPECT_THAT(passes[1], testing::ElementsAre(2));
  EXPECT_THAT(passes[2], testing::ElementsAre(9, 3));
  EXPECT_THAT(passes[3], testing::ElementsAre(3));  // What was left over was not its turn.
  EXPECT_THAT(passes[4], testing::ElementsAre(4));
}

// Random prompts with common beginnings, tenants, cancellations and too little memory: every answer is that of its
// request alone, causes add up, and in the end no block is lost.
TEST(EnginePrefixTest, RandomSchedulesGiveEveryAnswer) {
  std::mt19937 random(7);
  const auto pick = [&](uint32_t n) { return static_cast<uint32_t>(random() % n); };
  for (int round = 0; round < 40; ++round) {
    EngineOptions options = PrefixOptions(12 + pick(30), 160);
    options.max_sequences = 1 + pick(6);
    options.cache.overcommits = pick(2) == 0;
    options.cache.eviction_policy = pick(2) == 0 ? "lru" : "slru";
    const FakeEngine fake = MakeFakeEngine(options);
    std::vector<std::vector<TokenId>> prompts;
    std::vector<TokenStream> streams;
    std::set<size_t> cancelled;
    for (int i = 0; i < 25; ++i) {
      std::vector<TokenId> prompt = Prompt(1 + pick(90), pick(3));
      if (!prompts.empty() && pick(2) == 0) {
        prompt = prompts[pick(static_cast<uint32_t>(prompts.size()))];
        prompt.resize(1 + pick(static_cast<uint32_t>(prompt.size())));
        prompt = Joined(prompt, Prompt(pick(40), 4 + pick(3)));
      }
      if (prompt.size() > 120) prompt.resize(120);
      Request request = Asking(prompt, 1 + pick(20));
      request.tenant = request.cache_salt = pick(3) == 0 ? "b" : "a";
      request.keep_seconds = pick(5) == 0 ? 1000 : 0;
      prompts.push_back(prompt);
      streams.push_back(fake.engine->Submit(request).value());
      if (pick(6) == 0) {
        streams.back().Cancel();
        cancelled.insert(streams.size() - 1);
      }
    }
    for (size_t i = 0; i < streams.size(); ++i) {
      const Answer answer = Drain(streams[i]);
      if (cancelled.contains(i)) continue;
      ASSERT_TRUE(answer.status.ok()) << answer.status.message();
      EXPECT_EQ(answer.tokens, FakeGreedyAnswer(prompts[i], static_cast<uint32_t>(answer.tokens.size())))
          << round << ", " << i;
      EXPECT_EQ(SumOfCauses(answer.stats), prompts[i].size());
      EXPECT_EQ(answer.stats.prompt_tokens_found + answer.stats.prompt_tokens_computed, prompts[i].size())
          << answer.stats.num_preemptions;
    }
    const CacheStats cache = fake.engine->Stats().cache;
    EXPECT_EQ(cache.free_blocks + cache.filling_blocks + cache.full_blocks + cache.idle_blocks, cache.total_blocks);
    EXPECT_EQ(cache.filling_blocks, 0u);
  }
}

}  // namespace
}  // namespace kvern
