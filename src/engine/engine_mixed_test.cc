// Everything at once, in too little memory: shared prefixes, layer groups with windows, several answers to a prompt,
// preemption with a second memory or without, pins, tenants, scores, cancellations in the middle, a cache that is
// emptied. Every answer is that of its request alone, its tokens add up by cause, and nothing is left behind.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "kvern/engine.h"
#include "tests/support/fake_engine.h"
#include "tests/support/fault_store.h"

namespace kvern {
namespace {

struct Asked {
  std::vector<TokenId> prompt;
  TokenStream stream;
  bool is_cancelled = false;
};

class Mix {
 public:
  explicit Mix(uint32_t seed) : random_(seed) {
    EngineOptions options = FakeEngineOptions(/*context_tokens=*/200);
    options.cache.reuses_prefixes = true;
    options.max_sequences = 1 + Pick(8);
    options.max_queued = 1000;
    options.prefill_chunk = 1 + Pick(60);
    options.cache.eviction_policy = Pick(2) == 0 ? "lru" : "slru";
    options.cache.overcommits = Pick(3) != 0;
    const bool has_store = Pick(2) == 0, has_faults = Pick(2) == 0;
    FaultStore::Faults faults;
    if (has_faults) faults = {.first_failing_put = Pick(120), .first_failing_get = Pick(60)};
    keeps_all_ = has_store && !has_faults;
    std::vector<LayerGroup> groups = {{.window = 0, .num_layers = 2}};
    if (Pick(2) == 0) groups = {{.window = 0, .num_layers = 1}, {.window = 24, .num_layers = 1}};
    for (const LayerGroup& group : groups) spans_.push_back({.window = group.window});
    options.cache.budget_bytes = (groups.size() == 1 ? 13 + Pick(15) : 15 + Pick(15)) * kFakeBlockBytes;
    fake_ = MakeFakeEngine(
        options,
        [&](FakeModel& model) {
          model.SetLayerGroups(groups);
          model.on_forward = [this](const ForwardBatch&) {
            OnForward();
            return Status::Ok();
          };
        },
        has_store ? std::make_unique<FaultStore>(faults) : nullptr);
    max_choices_ = std::min(options.max_sequences, 3u);
  }

  // Whether nothing that a preemption takes away has to be computed again.
  bool keeps_all() const { return keeps_all_; }

  EngineStats Run() {
    for (int i = 0; i < 24; ++i) Submit();
    gate_.Open();
    std::thread scorer([this] {
      for (uint32_t i = 0; i < 3; ++i) {
        const auto scores = fake_.engine->Score({.tokens = Prompt(60 + 20 * i, i)});
        EXPECT_TRUE(scores.ok());
      }
      fake_.engine->ClearCache("b");
    });
    for (const auto& asked : asked_) Check(*asked);
    scorer.join();
    const EngineStats stats = fake_.engine->Stats();
    EXPECT_EQ(stats.cache.free_blocks + stats.cache.idle_blocks + stats.cache.full_blocks, stats.cache.total_blocks);
    EXPECT_EQ(stats.cache.full_bytes, stats.prefix.pinned_bytes);
    return stats;
  }

 private:
  uint32_t Pick(uint32_t n) { return static_cast<uint32_t>(random_() % n); }

  std::vector<TokenId> NextPrompt() {
    std::vector<TokenId> prompt = Prompt(1 + Pick(100), Pick(3));
    if (!prompts_.empty() && Pick(3) != 0) {
      prompt = prompts_[Pick(static_cast<uint32_t>(prompts_.size()))];
      if (Pick(2) == 0) prompt.resize(1 + Pick(static_cast<uint32_t>(prompt.size())));
      const std::vector<TokenId> rest = Prompt(Pick(40), 4 + Pick(3));
      prompt.insert(prompt.end(), rest.begin(), rest.end());
    }
    if (prompt.size() > 150) prompt.resize(150);
    return prompt;
  }

  void Submit() {
    Request request = {.prompt = NextPrompt(), .max_tokens = Pick(5) == 0 ? Pick(2) : Pick(50), .ends_at_eos = false};
    request.tenant = Pick(3) == 0 ? "b" : "a";
    request.cache_salt = Pick(5) == 0 ? "b" : "a";
    request.keep_seconds = Pick(6) == 0 ? 1000 : 0;
    const uint32_t num_choices = Pick(4) == 0 ? 1 + Pick(max_choices_) : 1;
    Result<std::vector<TokenStream>> streams = fake_.engine->SubmitChoices(request, num_choices);
    if (!streams.ok()) {  // All answers together may be too much.
      ASSERT_EQ(streams.status().code(), StatusCode::kResourceExhausted) << streams.status().message();
      return;
    }
    for (TokenStream& stream : *streams) {
      const bool is_cancelled = Pick(5) == 0;
      asked_.push_back(std::make_unique<Asked>(Asked{request.prompt, std::move(stream), is_cancelled}));
      if (is_cancelled) to_cancel_.push_back(asked_.back().get());
    }
    prompts_.push_back(request.prompt);
  }

  // On the engine thread: now and then one is cancelled.
  void OnForward() {
    (void)gate_.Pass();
    if (num_passes_++ % 4 != 0 || to_cancel_.empty()) return;
    to_cancel_.back()->stream.Cancel();
    to_cancel_.pop_back();
  }

  void Check(Asked& asked) {
    const Answer answer = Drain(asked.stream);
    const RequestStats& s = answer.stats;
    EXPECT_EQ(answer.tokens, FakeGreedyAnswer(asked.prompt, answer.tokens.size(), spans_));
    if (asked.is_cancelled) return;
    ASSERT_TRUE(answer.status.ok()) << answer.status.message();
    EXPECT_EQ(s.prompt_tokens_reused + s.prompt_tokens_computed, asked.prompt.size()) << s.num_preemptions;
    EXPECT_EQ(s.prompt_tokens_found + s.prompt_tokens_first_time + s.prompt_tokens_evicted + s.prompt_tokens_diverged +
                  s.prompt_tokens_last,
              asked.prompt.size())
        << s.num_preemptions;
    EXPECT_EQ(s.prompt_tokens_found, s.prompt_tokens_reused);
  }

  std::mt19937 random_;
  Gate gate_;
  std::vector<AttentionSpan> spans_;
  uint32_t max_choices_ = 1;
  bool keeps_all_ = false;
  std::vector<std::vector<TokenId>> prompts_;
  std::vector<std::unique_ptr<Asked>> asked_;
  std::vector<Asked*> to_cancel_;  // The engine thread's, once the gate is open.
  uint64_t num_passes_ = 0;
  FakeEngine fake_;  // Goes first.
};

// KVERN_MIXED_SCHEDULES in the environment: how many schedules.
TEST(EngineMixedTest, EveryAnswerIsThatOfItsRequestAlone) {
  const char* const wanted = std::getenv("KVERN_MIXED_SCHEDULES");
  const uint32_t num_schedules = wanted != nullptr ? static_cast<uint32_t>(std::strtoul(wanted, nullptr, 10)) : 300;
  uint64_t num_preemptions = 0, num_recomputed = 0, num_restored = 0, num_evicted = 0;
  for (uint32_t seed = 0; seed < num_schedules; ++seed) {
    SCOPED_TRACE("schedule " + std::to_string(seed));
    Mix mix(seed);

    const EngineStats stats = mix.Run();

    num_preemptions += stats.num_preemptions;
    num_recomputed += stats.tokens_recomputed;
    num_restored += stats.restored_bytes;
    num_evicted += stats.prefix.evicted_blocks;
    EXPECT_TRUE(!mix.keeps_all() || stats.tokens_recomputed == 0) << stats.tokens_recomputed;
  }

  // It does happen.
  EXPECT_GT(num_preemptions, 100u);
  EXPECT_GT(num_recomputed, 100u);
  EXPECT_GT(num_restored, 100 * kFakeBlockBytes);
  EXPECT_GT(num_evicted, 1000u);
}

}  // namespace
}  // namespace kvern
