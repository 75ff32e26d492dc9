// Windows, sinks, layer groups and placements through the whole engine: the answer is that of a pass over all tokens
// masked to the same window, whatever the cache gives back.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "kvern/engine.h"
#include "tests/support/fake_engine.h"

namespace kvern {
namespace {

using ::testing::HasSubstr;

struct WindowCase {
  uint32_t window = 0, num_sinks = 0;
  std::vector<TokenRange> global_tokens = {};
  std::vector<LayerGroup> groups = {{.window = 0, .num_layers = kFakeShape.num_layers}};
};

std::vector<PositionRange> PinnedOf(const WindowCase& c) {
  std::vector<PositionRange> pinned;
  if (c.num_sinks > 0) pinned.push_back({0, c.num_sinks});
  for (const TokenRange& range : c.global_tokens) pinned.push_back({range.begin, range.end});
  return pinned;
}

std::vector<TokenId> ExpectedAnswer(const WindowCase& c, const std::vector<TokenId>& prompt, size_t num_tokens) {
  const std::vector<PositionRange> pinned = PinnedOf(c);
  std::vector<AttentionSpan> spans;
  for (const LayerGroup& group : c.groups) {
    if (group.window == 0) {
      spans.push_back({.window = c.window});
      if (c.window > 0) spans.back().pinned = pinned;
    } else {
      spans.push_back({.window = c.window == 0 ? group.window : std::min(c.window, group.window)});
    }
  }
  return FakeGreedyAnswer(prompt, num_tokens, spans);
}

EngineOptions OptionsOf(const WindowCase& c, const std::string& placement) {
  EngineOptions options = FakeEngineOptions(/*context_tokens=*/400);
  options.cache.placement = placement;
  options.cache.window_tokens = c.window;
  options.cache.num_sinks = c.num_sinks;
  options.cache.global_tokens = c.global_tokens;
  return options;
}

FakeEngine EngineFor(const WindowCase& c, const EngineOptions& options) {
  return MakeFakeEngine(options, [&c](FakeModel& model) { model.SetLayerGroups(c.groups); });
}

const std::vector<LayerGroup> kTwoGroups = {{.window = 0, .num_layers = 1}, {.window = 24, .num_layers = 1}};

std::vector<WindowCase> Cases() {
  return {
      {},
      {.groups = kTwoGroups},
      {.window = 16},
      {.window = 40, .num_sinks = 4},
      {.window = 33, .num_sinks = 1, .global_tokens = {{20, 22}, {50, 90}}},
      {.window = 16, .num_sinks = 4, .groups = kTwoGroups},
      {.window = 100, .num_sinks = 16, .groups = kTwoGroups},
  };
}

TEST(EngineWindowTest, EveryPlacementGivesTheAnswerOfTheMaskedPass) {
  for (const WindowCase& c : Cases()) {
    for (const std::string placement : {"paged", "contiguous", "growing", "ring"}) {
      if (placement == "ring" && c.window == 0) continue;
      for (const uint32_t chunk : {1u, 7u, 64u}) {
        for (const bool is_cached : {true, false}) {
          EngineOptions options = OptionsOf(c, placement);
          options.prefill_chunk = chunk;
          options.cache.is_enabled = is_cached;
          const FakeEngine fake = EngineFor(c, options);
          const uint32_t num_tokens = is_cached ? 150 : 40;

          const Answer answer = Ask(*fake.engine, {.prompt = Prompt(70), .max_tokens = num_tokens});

          ASSERT_EQ(answer.tokens, ExpectedAnswer(c, Prompt(70), num_tokens))
              << placement << ", window " << c.window << ", chunk " << chunk << (is_cached ? "" : ", uncached");
          const CacheStats cache = fake.engine->Stats().cache;
          EXPECT_EQ(cache.free_bytes, cache.total_bytes);
          EXPECT_LE(cache.peak_used_bytes, fake.engine->options().cache.budget_bytes);
        }
      }
    }
  }
}

TEST(EngineWindowTest, AnswersToOnePromptAreThoseOfEachAlone) {
  for (const WindowCase& c : Cases()) {
    for (const std::string placement : {"paged", "contiguous", "growing", "ring"}) {
      if (placement == "ring" && c.window == 0) continue;
      EngineOptions options = OptionsOf(c, placement);
      options.context_tokens = 200;
      options.cache.budget_bytes = 400 * kFakeBlockBytes;
      const FakeEngine fake = EngineFor(c, options);
      Request request{.prompt = Prompt(75), .max_tokens = 60};
      request.sampling.temperature = 1;
      request.sampling.seed = 9;

      std::vector<TokenStream> streams = fake.engine->SubmitChoices(request, 3).value();

      for (uint32_t i = 0; i < 3; ++i) {
        const FakeEngine alone = EngineFor(c, options);
        request.choice_index = i;
        EXPECT_EQ(Drain(streams[i]).tokens, Ask(*alone.engine, request).tokens) << placement << ", " << c.window;
      }
    }
  }
}

TEST(EngineWindowTest, AStreamRunsPastTheTrainedLengthInConstantMemory) {
  const WindowCase c = {.window = 32, .num_sinks = 4};
  for (const std::string placement : {"paged", "ring"}) {
    EngineOptions options = OptionsOf(c, placement);
    options.context_tokens = 0;
    options.prefill_chunk = 16;
    const FakeEngine fake = EngineFor(c, options);

    const Answer answer = Ask(*fake.engine, {.prompt = Prompt(20), .max_tokens = 5000});

    EXPECT_EQ(answer.tokens.size(), 5000u);  // Of a model trained for 4096.
    EXPECT_EQ(answer.tokens, ExpectedAnswer(c, Prompt(20), 5000));
    const uint64_t in_window = placement == "ring" ? 3 : 4;  // 32 + 16 - 1 slots, in a ring or anywhere in blocks.
    EXPECT_LE(fake.engine->Stats().cache.peak_used_blocks, in_window + 1);
    EXPECT_EQ(fake.engine->Stats().cache.total_blocks, in_window + 1);
  }
}

TEST(EngineWindowTest, LocalLayersHoldTheirWindowWhileOthersHoldAll) {
  const WindowCase c = {.groups = kTwoGroups};
  EngineOptions options = OptionsOf(c, "paged");
  options.context_tokens = 3000;
  options.prefill_chunk = 1;
  const FakeEngine fake = EngineFor(c, options);

  const Answer answer = Ask(*fake.engine, {.prompt = Prompt(10), .max_tokens = 2990});

  EXPECT_EQ(answer.tokens.size(), 2990u);
  // 188 blocks of the layer that sees all; 24 tokens may touch 3 blocks. One layer: half of kFakeBlockBytes each.
  EXPECT_EQ(fake.engine->Stats().cache.peak_used_bytes, (188 + 3) * kFakeBlockBytes / 2);
  EXPECT_EQ(fake.engine->Stats().cache.total_bytes, (188 + 3) * kFakeBlockBytes / 2);
}

TEST(EngineWindowTest, CountersCountWhatTheWindowShows) {
  const WindowCase c = {.window = 16};
  const FakeEngine fake = EngineFor(c, OptionsOf(c, "paged"));

  const Answer answer = Ask(*fake.engine, {.prompt = Prompt(20), .max_tokens = 11});

  // Rows 0 to 29: 16 * 17 / 2 products of the first 16, then 16 each.
  EXPECT_EQ(answer.stats.query_key_products, kProductsPerPair * (16 * 17 / 2 + 14 * 16));
  EXPECT_EQ(answer.stats.tokens_computed, 30u);
  EXPECT_EQ(answer.stats.tokens_reused, 10u * 15);
  EXPECT_EQ(fake.engine->Stats().query_key_products, answer.stats.query_key_products);
}

TEST(EngineWindowTest, PlacementsThatKeepAllAreLimitedByMemory) {
  const WindowCase c = {.window = 32};
  EngineOptions options = OptionsOf(c, "contiguous");
  options.context_tokens = 10000;
  options.cache.budget_bytes = 10 * kFakeBlockBytes;
  const FakeEngine fake = EngineFor(c, options);

  EXPECT_EQ(fake.engine->options().context_tokens, 160u);
  const Result<TokenStream> refused = fake.engine->Submit({.prompt = Prompt(161)});
  EXPECT_EQ(refused.status().code(), StatusCode::kResourceExhausted);
  options.cache.placement = "growing";
  const FakeEngine growing = EngineFor(c, options);
  EXPECT_EQ(growing.engine->options().context_tokens, 80u);  // 5 blocks, of which 4 may have to be copied.
}

TEST(EngineWindowTest, ManySequencesShareTheBudgetOfAWindow) {
  const WindowCase c = {.window = 16, .num_sinks = 2};
  for (const std::string placement : {"paged", "ring"}) {
    EngineOptions options = OptionsOf(c, placement);
    options.prefill_chunk = 16;
    options.context_tokens = 1000;
    options.cache.budget_bytes = 17 * kFakeBlockBytes;
    const FakeEngine fake = EngineFor(c, options);

    std::vector<TokenStream> streams;
    for (uint32_t i = 0; i < 9; ++i) {
      streams.push_back(fake.engine->Submit({.prompt = Prompt(30 + i, i), .max_tokens = 100}).value());
    }

    for (uint32_t i = 0; i < 9; ++i) {
      EXPECT_EQ(Drain(streams[i]).tokens, ExpectedAnswer(c, Prompt(30 + i, i), 100)) << placement << i;
    }
    EXPECT_LE(fake.engine->Stats().cache.peak_used_blocks, 17u);
  }
}

TEST(EngineWindowTest, ScoresAreThoseOfTheMaskedPass) {
  const WindowCase c = {.window = 24, .num_sinks = 3};
  std::vector<std::vector<TokenScore>> all;
  for (const std::string placement : {"paged", "ring", "growing", "contiguous"}) {
    for (const uint32_t chunk : {5u, 64u}) {
      EngineOptions options = OptionsOf(c, placement);
      options.prefill_chunk = chunk;
      const FakeEngine fake = EngineFor(c, options);
      all.push_back(fake.engine->Score({.tokens = Prompt(200)}).value());
    }
  }
  for (const auto& scores : all) {
    ASSERT_EQ(scores.size(), 199u);
    for (size_t i = 0; i < scores.size(); ++i) ASSERT_EQ(scores[i].log_prob, all[0][i].log_prob) << i;
  }
}

}  // namespace
}  // namespace kvern
