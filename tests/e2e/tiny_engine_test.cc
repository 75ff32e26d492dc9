// The public API on a small model in a real file: what is promised of text holds from Engine::Open to the last token.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "kvern/diagnostics.h"
#include "kvern/engine.h"
#include "tests/support/tiny_model.h"

namespace kvern {
namespace {

using testing::HasSubstr;

class TinyEngineTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = testing::TempDir() + "kvern-tiny-XXXXXX";
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    directory_ = pattern;
    Write(TinyModelBytes({.vocab_size = 272, .context_tokens = 256, .has_tokenizer = true}));
  }
  void TearDown() override { std::filesystem::remove_all(directory_); }

  void Write(const std::vector<uint8_t>& bytes) {
    std::ofstream out(path(), std::ios::binary);
    out.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  }
  std::string path() const { return directory_ + "/tiny.gguf"; }
  EngineOptions Options() const {
    EngineOptions options;
    options.model_path = path();
    return options;
  }

  std::string directory_;
};

// The tokens of an answer to `text`, drawn at temperature 1 so that small differences of logits would show.
std::vector<TokenId> Answer(const EngineOptions& options, const std::string& text, RequestStats* stats = nullptr) {
  auto engine = Engine::Open(options);
  if (!engine.ok()) {
    ADD_FAILURE() << engine.status().ToString();
    return {};
  }
  Request request;
  request.prompt = (*engine)->tokenizer().Encode(text).value();
  request.max_tokens = 40;
  request.sampling.temperature = 1;
  request.sampling.seed = 7;
  auto stream = (*engine)->Submit(request);
  if (!stream.ok()) {
    ADD_FAILURE() << stream.status().ToString();
    return {};
  }
  std::vector<TokenId> tokens;
  while (auto event = stream->Next()) {
    if (event->token >= 0) tokens.push_back(event->token);
  }
  EXPECT_TRUE(stream->status().ok()) << stream->status().ToString();
  if (stats != nullptr) *stats = stream->stats();
  return tokens;
}

TEST_F(TinyEngineTest, TargetsThreadsBlocksChunksAndTheUncachedPathGiveTheSameAnswer) {
  const std::string text = "Every token is ground once.";
  const std::vector<TokenId> expected = Answer(Options(), text);
  ASSERT_EQ(expected.size(), 40u);

  for (const std::string& isa : RunnableIsas()) {
    EngineOptions options = Options();
    options.isa = isa;
    options.num_threads = 1;
    options.cache.block_size = 16;
    options.prefill_chunk = 5;
    EXPECT_EQ(Answer(options, text), expected) << isa;
    options.cache.is_enabled = false;
    if (isa == "generic") continue;  // Quadratic work in slow code.
    EXPECT_EQ(Answer(options, text), expected) << isa << ", uncached";
  }
}

TEST_F(TinyEngineTest, CountersSayWhatWasComputedAndWhatWasReused) {
  RequestStats stats;
  Answer(Options(), "0123456789", &stats);

  EXPECT_EQ(stats.prompt_tokens, 10u);
  EXPECT_EQ(stats.generated_tokens, 40u);
  EXPECT_EQ(stats.tokens_computed, 49u);  // The last token is never an input.
  uint64_t reused = 0;
  for (uint64_t n = 10; n < 49; ++n) reused += n;
  EXPECT_EQ(stats.tokens_reused, reused);
  EXPECT_EQ(stats.query_key_products, 2u * 4u * 49u * 50u / 2u);  // Layers x heads x the causal sum.
}

TEST_F(TinyEngineTest, ScoresAreThoseOfTheSameTokensInAnyChunk) {
  auto engine = Engine::Open(Options());
  ASSERT_TRUE(engine.ok()) << engine.status().ToString();
  EngineOptions small = Options();
  small.prefill_chunk = 3;
  small.num_threads = 1;
  auto other = Engine::Open(small);
  ASSERT_TRUE(other.ok()) << other.status().ToString();
  const std::vector<TokenId> tokens = RandomTokens(100, 256, 3);

  const auto scores = (*engine)->Score({.tokens = tokens});
  const auto others = (*other)->Score({.tokens = tokens});

  ASSERT_TRUE(scores.ok() && others.ok());
  ASSERT_EQ(scores->size(), 99u);
  for (size_t i = 0; i < scores->size(); ++i) {
    EXPECT_LT((*scores)[i].log_prob, 0);
    EXPECT_EQ((*scores)[i].log_prob, (*others)[i].log_prob) << i;
    EXPECT_EQ((*scores)[i].most_likely, (*others)[i].most_likely) << i;
  }
}

TEST_F(TinyEngineTest, ABudgetBelowOneBlockSaysHowManyBytesOneNeeds) {
  EngineOptions options = Options();
  options.cache.budget_bytes = 1000;

  const Status status = Engine::Open(options).status();

  EXPECT_EQ(status.code(), StatusCode::kResourceExhausted);
  // 64 tokens x 2 layers x 2 KV heads x 32 dims x (K and V) x 2 bytes.
  EXPECT_THAT(status.message(), HasSubstr(std::to_string(64 * 2 * 2 * 32 * 2 * 2)));
}

TEST_F(TinyEngineTest, AModelWithoutATokenizerIsRefusedAndNamed) {
  Write(TinyModelBytes({}));

  const Status status = Engine::Open(Options()).status();

  EXPECT_FALSE(status.ok());
  EXPECT_THAT(status.message(), HasSubstr("tokenizer.ggml.model"));
}

TEST_F(TinyEngineTest, AnUnknownArchitectureIsNamedBeforeItsKeysAreMissed) {
  std::vector<uint8_t> bytes = TinyModelBytes({.vocab_size = 272, .has_tokenizer = true});
  std::string text(bytes.begin(), bytes.end());
  for (size_t at = 0; (at = text.find("llama", at)) != std::string::npos;) text.replace(at, 5, "mamba");
  // The keys of another architecture would be missing first; the message must be about what the user can understand.
  text.replace(text.find("mamba.attention.layer_norm_rms_epsilon"), 5, "other");
  Write({text.begin(), text.end()});

  const Status status = Engine::Open(Options()).status();

  EXPECT_EQ(status.code(), StatusCode::kUnsupported);
  EXPECT_THAT(status.message(), HasSubstr("architecture 'mamba' is not supported; kvern runs: llama"));
}

TEST_F(TinyEngineTest, ALoadIsCancelledByItsProgressCallback) {
  const Status status = Engine::Open(Options(), [](uint64_t, uint64_t) { return false; }).status();

  EXPECT_EQ(status.code(), StatusCode::kCancelled);
}

TEST_F(TinyEngineTest, TheTokenizerAloneNeedsNoWeights) {
  const auto tokenizer = LoadTokenizer(path());
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status().ToString();

  EXPECT_EQ((*tokenizer)->Encode("az").value(), (std::vector<TokenId>{'a', 'z'}));
}

}  // namespace
}  // namespace kvern
