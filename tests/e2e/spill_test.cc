// Preemption on a real forward pass: the tokens of requests that wait in a file for their memory are those of requests
// that never had to.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "kvern/engine.h"
#include "tests/support/tiny_model.h"

namespace kvern {
namespace {

constexpr uint64_t kBytesPerToken = 2 * 2 * 32 * 2 * 2;  // Layers, KV heads, dims, K and V, f16.

class SpillTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = testing::TempDir() + "kvern-spill-XXXXXX";
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    directory_ = pattern;
    const std::vector<uint8_t> bytes =
        TinyModelBytes({.vocab_size = 272, .context_tokens = 512, .has_tokenizer = true});
    std::ofstream out(directory_ + "/tiny.gguf", std::ios::binary);
    out.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
    std::filesystem::create_directory(directory_ + "/spill");
  }
  void TearDown() override { std::filesystem::remove_all(directory_); }

  EngineOptions Options() const {
    EngineOptions options;
    options.model_path = directory_ + "/tiny.gguf";
    options.num_threads = 1;
    options.cache.block_size = 16;
    options.cache.budget_bytes = 4096 * kBytesPerToken;
    return options;
  }
  static std::vector<std::vector<TokenId>> AskFour(Engine& engine) {
    std::vector<TokenStream> streams;
    for (uint32_t i = 0; i < 4; ++i) {
      Request request{.prompt = RandomTokens(40, 256, i), .max_tokens = 160, .ends_at_eos = false};
      request.sampling.temperature = 1;
      request.sampling.seed = i;
      streams.push_back(engine.Submit(request).value());
    }
    std::vector<std::vector<TokenId>> answers;
    for (TokenStream& stream : streams) {
      std::vector<TokenId>& answer = answers.emplace_back();
      while (const auto event = stream.Next()) {
        if (event->token >= 0) answer.push_back(event->token);
      }
      EXPECT_TRUE(stream.status().ok()) << stream.status().ToString();
    }
    return answers;
  }

  std::string directory_;
};

TEST_F(SpillTest, TokensAreThoseWithoutPreemption) {
  const auto roomy = Engine::Open(Options()).value();
  EngineOptions options = Options();
  options.cache.budget_bytes = 300 * kBytesPerToken;  // One and a half sequences of 200.
  options.cache.spill_directory = directory_ + "/spill";
  const auto tight = Engine::Open(options).value();

  EXPECT_EQ(AskFour(*tight), AskFour(*roomy));

  const EngineStats stats = tight->Stats();
  EXPECT_GT(stats.num_preemptions, 0u);
  EXPECT_GT(stats.restored_bytes, 0u);
  EXPECT_EQ(stats.tokens_recomputed, 0u);
  EXPECT_TRUE(std::filesystem::is_empty(directory_ + "/spill"));  // The file has no name.
}

TEST_F(SpillTest, AFullSecondMemoryCostsTimeNotTokens) {
  const auto roomy = Engine::Open(Options()).value();
  EngineOptions options = Options();
  options.cache.budget_bytes = 300 * kBytesPerToken;
  options.cache.spill_directory = directory_ + "/spill";
  options.cache.spill_limit_bytes = 40 * kBytesPerToken;
  const auto tight = Engine::Open(options).value();

  EXPECT_EQ(AskFour(*tight), AskFour(*roomy));

  EXPECT_GT(tight->Stats().tokens_recomputed, 0u);
}

TEST_F(SpillTest, AnAbsentDirectoryIsNamed) {
  EngineOptions options = Options();
  options.cache.spill_directory = directory_ + "/absent";

  const Status status = Engine::Open(options).status();

  EXPECT_EQ(status.code(), StatusCode::kNotFound);
  EXPECT_NE(status.message().find("/absent"), std::string::npos);
}

}  // namespace
}  // namespace kvern
