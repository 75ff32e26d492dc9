// Centres of keys are a property of the model: the same bits for every target and thread count, and nowhere where a row
// would read keys under two queries.
#include "engine/key_centres.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "engine/cache_plan.h"
#include "engine/vocab_from_gguf.h"
#include "kernels/dispatch.h"
#include "tests/support/tiny_model.h"
#include "tokenizer/vocab.h"

namespace kvern {
namespace {

using testing::HasSubstr;

const TinyModelSpec kSpec = {.vocab_size = 300, .has_tokenizer = true};
const TinyModelSpec kWindowSpec = {.architecture = "gemma3", .num_layers = 4, .vocab_size = 300, .has_tokenizer = true};

CacheOptions IntegerKeys() {
  CacheOptions options;
  options.k_type = options.v_type = KvType::kI8;
  return options;
}

std::unique_ptr<KvCache> MakeCache(const TinyModelSpec& spec, const CacheOptions& cache_options) {
  EngineOptions options;
  options.context_tokens = 256;
  options.cache = cache_options;
  const ModelConfig config = ReadModelConfig(OpenTinyModel(spec)).value();
  return KvCache::Create(PlanCache(options, config).value().spec, HeapAllocator()).value();
}

std::unique_ptr<Tokenizer> TokenizerOf(const TinyModelSpec& spec) {
  return MakeTokenizer(VocabFromGguf(OpenTinyModel(spec)).value()).value();
}

// Of all layer groups, one after the other.
std::vector<float> CentresOf(const TinyModelSpec& spec, const CacheOptions& cache_options, const KernelTable& target,
                             uint32_t num_threads) {
  const std::unique_ptr<KvCache> cache = MakeCache(spec, cache_options);
  const LoadedTinyModel tiny = LoadTinyModel(spec, target, num_threads);
  EXPECT_TRUE(CentreKeys(*cache, *tiny.model, *TokenizerOf(spec)).ok());
  std::vector<float> all;
  for (size_t g = 0; g < cache->num_groups(); ++g) {
    const KvView view = cache->pool(g).view();
    const size_t count = size_t{cache->pool(g).layout().shape().num_layers} * view.num_kv_heads * view.head_dim;
    if (view.key_centres != nullptr) all.insert(all.end(), view.key_centres, view.key_centres + count);
  }
  return all;
}

TEST(KeyCentresTest, AreTheSameBitsOnEveryTargetAndThreadCount) {
  for (const TinyModelSpec& spec : {kSpec, kWindowSpec}) {
    const std::vector<float> expected = CentresOf(spec, IntegerKeys(), *RunnableTargets().front(), 1);

    EXPECT_EQ(expected.size(), size_t{spec.num_layers} * spec.num_kv_heads * spec.head_dim);
    EXPECT_NE(expected, std::vector<float>(expected.size()));
    for (const KernelTable* target : RunnableTargets()) {
      for (const uint32_t num_threads : {1u, 2u}) {
        EXPECT_EQ(CentresOf(spec, IntegerKeys(), *target, num_threads), expected) << target->name;
      }
    }
  }
}

TEST(KeyCentresTest, DoNotDependOnWhatElseIsChosen) {
  CacheOptions other = IntegerKeys();
  other.k_type = KvType::kI4;
  other.block_size = 16;
  other.window_tokens = 64;

  EXPECT_EQ(CentresOf(kSpec, other, *RunnableTargets().back(), 2),
            CentresOf(kSpec, IntegerKeys(), *RunnableTargets().back(), 1));
}

TEST(KeyCentresTest, AreLeftOutForCodecsOfFloatsAndWhereARowSeesPinnedSlots) {
  CacheOptions floats = IntegerKeys();
  floats.k_type = KvType::kF16;
  EXPECT_TRUE(CentresOf(kSpec, floats, *RunnableTargets().back(), 1).empty());

  CacheOptions pinned = IntegerKeys();
  pinned.window_tokens = 64;
  pinned.num_sinks = 4;
  EXPECT_TRUE(CentresOf(kSpec, pinned, *RunnableTargets().back(), 1).empty());
  // Layers with a window of their own see no pinned slots: two of the four.
  EXPECT_EQ(CentresOf(kWindowSpec, pinned, *RunnableTargets().back(), 1).size(),
            size_t{2} * kWindowSpec.num_kv_heads * kWindowSpec.head_dim);
}

TEST(KeyCentresTest, AVocabularyThatCannotSpellTheTextIsAnErrorThatNamesTheCodec) {
  VocabData few = VocabFromGguf(OpenTinyModel(kSpec)).value();
  few.tokens.resize(3);
  few.token_types.clear();
  few.eos_id = few.bos_id = few.eot_id = few.unk_id = {};
  const std::unique_ptr<KvCache> cache = MakeCache(kSpec, IntegerKeys());
  const LoadedTinyModel tiny = LoadTinyModel(kSpec, *RunnableTargets().back(), 1);

  const Status status = CentreKeys(*cache, *tiny.model, *MakeTokenizer(std::move(few)).value());

  EXPECT_THAT(status.message(), HasSubstr("keys cannot be centred for KV type int8"));
}

}  // namespace
}  // namespace kvern
