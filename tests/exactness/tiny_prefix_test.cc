// Random mixes of requests on one cache: prefix hits, copies of parts of blocks, chunks, preemptions, cancellations,
// tenants, several answers. Each request gets, bit for bit, the logits that it gets alone on an empty cache.
//
//   KVERN_PREFIX_SCHEDULES=1000 tiny_prefix_test      more schedules than the default
#include <gtest/gtest.h>

#include <cstdlib>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/fake_engine.h"
#include "tests/support/recording_model.h"
#include "tests/support/tiny_model.h"

namespace kvern {
namespace {

using LogitRows = std::set<std::vector<float>>;

struct Schedule {
  TinyModelSpec spec;
  EngineOptions options;
  const KernelTable* target;
  uint32_t num_threads;
  std::vector<Request> requests;
  std::vector<uint32_t> num_choices;
  std::vector<bool> is_cancelled;
  std::string description;
};

std::unique_ptr<Engine> MakeTinyEngine(const Schedule& schedule, const EngineOptions& options,
                                       const KernelTable& target, uint32_t num_threads, LogitRows& rows) {
  LoadedTinyModel tiny = LoadTinyModel(schedule.spec, target, num_threads);
  CachePlan plan = PlanCache(options, tiny.model->config()).value();
  EngineParts parts;
  parts.options = options;
  parts.options.context_tokens = plan.context_tokens;
  parts.options.cache.budget_bytes = plan.budget_bytes;
  parts.wanted_context_tokens = plan.wanted_context_tokens;
  parts.kernels = &target;
  parts.workers = std::move(tiny.pool);
  parts.tokenizer = std::make_unique<FakeTokenizer>();
  parts.model = std::make_unique<RecordingModel>(std::move(tiny.model),
                                                 [&rows](std::vector<float> row) { rows.insert(std::move(row)); });
  parts.cache = KvCache::Create(std::move(plan.spec), HeapAllocator()).value();
  return MakeEngine(std::move(parts)).value();
}

constexpr uint32_t kContext = 700;

// Prompts grow out of each other as those of chats do, or share a beginning that ends anywhere.
std::vector<TokenId> NextPrompt(const std::vector<Request>& earlier, std::mt19937& random) {
  const auto pick = [&](uint32_t n) { return static_cast<uint32_t>(random() % n); };
  std::vector<TokenId> prompt;
  if (!earlier.empty() && pick(4) != 0) {
    prompt = earlier[pick(static_cast<uint32_t>(earlier.size()))].prompt;
    if (pick(2) == 0) prompt.resize(1 + pick(static_cast<uint32_t>(prompt.size())));
  }
  const std::vector<TokenId> rest = RandomTokens(1 + pick(pick(3) == 0 ? 400 : 60), kFakeVocabSize, random());
  prompt.insert(prompt.end(), rest.begin(), rest.end());
  if (prompt.size() > kContext - 40) prompt.resize(kContext - 40);
  return prompt;
}

Schedule MakeSchedule(uint32_t seed) {
  std::mt19937 random(seed);
  const auto pick = [&](uint32_t n) { return static_cast<uint32_t>(random() % n); };
  Schedule s;
  const bool has_windows = pick(3) == 0;
  s.spec = {.architecture = has_windows ? "gemma3" : "llama", .head_dim = 32, .vocab_size = kFakeVocabSize};
  constexpr std::pair<KvType, KvType> kTypes[] = {{KvType::kF16, KvType::kF16},
                                                  {KvType::kF32, KvType::kBF16},
                                                  {KvType::kI8, KvType::kI4},
                                                  {KvType::kI4, KvType::kI8}};
  const auto [k_type, v_type] = kTypes[pick(4)];
  EngineOptions& o = s.options;
  o.model_path = "tiny";
  o.context_tokens = kContext;
  o.prefill_chunk = 16 + pick(300);
  o.max_sequences = 1 + pick(8);
  o.cache.block_size = pick(2) == 0 ? 16 : 64;
  o.cache.k_type = k_type;
  o.cache.v_type = v_type;
  o.cache.overcommits = pick(2) == 0;
  o.cache.eviction_policy = pick(2) == 0 ? "lru" : "slru";
  if (!has_windows && pick(4) == 0) {
    o.cache.window_tokens = 64 + pick(100);
    o.cache.num_sinks = pick(2) * 4;
  }
  const ModelConfig config = ReadModelConfig(OpenTinyModel(s.spec)).value();
  o.cache.budget_bytes = PlanCache(o, config).value().budget_bytes * (100 + pick(100)) / 100;
  const auto targets = RunnableTargets();
  s.target = targets[pick(8) == 0 ? 0 : pick(static_cast<uint32_t>(targets.size() - 1)) + (targets.size() > 1 ? 1 : 0)];
  s.num_threads = 1 + pick(2);
  for (uint32_t i = 0; i < 14; ++i) {
    Request request = {.prompt = NextPrompt(s.requests, random),
                       .max_tokens = pick(3) == 0 ? pick(24) : 20 + pick(100),
                       .ends_at_eos = false};
    request.sampling.temperature = pick(2) == 0 ? 0.0f : 1.0f;
    request.sampling.seed = i;
    request.tenant = request.cache_salt = pick(4) == 0 ? "other" : "";
    s.requests.push_back(std::move(request));
    // Pools of layers with a window may hold one sequence only.
    s.num_choices.push_back(
        !has_windows && o.cache.window_tokens == 0 && pick(5) == 0 ? 1 + pick(std::min(3u, o.max_sequences)) : 1);
    s.is_cancelled.push_back(pick(6) == 0);
  }
  s.description = "schedule " + std::to_string(seed) + ": " + s.spec.architecture + ", " + s.target->name +
                  ", blocks of " + std::to_string(o.cache.block_size) + ", K " + std::string(KvTypeName(k_type)) +
                  (o.cache.overcommits ? ", overcommitted" : "");
  return s;
}

TEST(TinyPrefixTest, RandomMixesGetTheLogitsOfEachRequestAlone) {
  const char* const wanted = std::getenv("KVERN_PREFIX_SCHEDULES");
  const uint32_t num_schedules = wanted != nullptr ? static_cast<uint32_t>(std::strtoul(wanted, nullptr, 10)) : 50;
  uint64_t num_found = 0, num_copied = 0, num_evicted = 0, num_preemptions = 0;
  for (uint32_t seed = 0; seed < num_schedules; ++seed) {
    const Schedule s = MakeSchedule(seed);
    std::vector<std::vector<TokenId>> expected;
    LogitRows expected_rows, rows;
    EngineOptions alone = s.options;
    alone.cache.reuses_prefixes = false;
    alone.cache.overcommits = false;
    alone.cache.budget_bytes = 0;
    alone.cache.block_size = 32;  // Nothing but bytes is left to compare.
    if (s.options.cache.window_tokens == 0) alone.prefill_chunk = 100;
    const auto reference = MakeTinyEngine(s, alone, *RunnableTargets().back(), 1, expected_rows);
    for (size_t i = 0; i < s.requests.size(); ++i) {
      for (uint32_t choice = 0; choice < s.num_choices[i]; ++choice) {
        Request request = s.requests[i];
        request.choice_index = choice;
        expected.push_back(Ask(*reference, request).tokens);
      }
    }

    const auto engine = MakeTinyEngine(s, s.options, *s.target, s.num_threads, rows);
    std::vector<TokenStream> streams;
    std::vector<bool> is_cancelled;
    for (size_t i = 0; i < s.requests.size(); ++i) {
      Result<std::vector<TokenStream>> choices = engine->SubmitChoices(s.requests[i], s.num_choices[i]);
      if (!choices.ok() && s.num_choices[i] > 1) {  // Together they may be more than there is room for.
        ASSERT_EQ(choices.status().code(), StatusCode::kResourceExhausted) << choices.status().message();
        const auto refused = expected.begin() + static_cast<std::ptrdiff_t>(streams.size());
        expected.erase(refused, refused + s.num_choices[i]);
        continue;
      }
      ASSERT_TRUE(choices.ok()) << choices.status().message();
      for (TokenStream& stream : *choices) {
        if (s.is_cancelled[i]) stream.Cancel();
        is_cancelled.push_back(s.is_cancelled[i]);
        streams.push_back(std::move(stream));
      }
    }
    for (size_t i = 0; i < streams.size(); ++i) {
      const Answer answer = Drain(streams[i]);
      if (is_cancelled[i]) continue;
      ASSERT_TRUE(answer.status.ok()) << s.description << ": " << answer.status.message();
      EXPECT_EQ(answer.tokens, expected[i]) << s.description << ", answer " << i;
      num_preemptions += answer.stats.num_preemptions;
    }
    for (const std::vector<float>& row : rows) {
      ASSERT_TRUE(expected_rows.contains(row)) << s.description << ": logits that no request has alone";
    }
    const PrefixStats stats = engine->Stats().prefix;
    num_found += stats.hit_tokens;
    num_copied += stats.copied_tokens;
    num_evicted += stats.evicted_blocks;
  }
  EXPECT_GT(num_found, 0u);
  EXPECT_GT(num_copied, 0u);
  EXPECT_GT(num_evicted, 0u);
  EXPECT_GT(num_preemptions, 0u);
  std::printf("%u schedules: %llu tokens found, %llu copied, %llu blocks evicted, %llu preemptions\n", num_schedules,
              static_cast<unsigned long long>(num_found), static_cast<unsigned long long>(num_copied),
              static_cast<unsigned long long>(num_evicted), static_cast<unsigned long long>(num_preemptions));
}

}  // namespace
}  // namespace kvern
