// A window that slides against recomputing it, on models of which theory knows what must come out.
#include "cli/recompute.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <string>

#include "tests/support/tiny_model.h"

namespace kvern::cli {
namespace {

class RecomputeTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = testing::TempDir() + "kvern-recompute-XXXXXX";
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    directory_ = pattern;
  }
  void TearDown() override { std::filesystem::remove_all(directory_); }

  // `result` gets the comparison over all tokens behind a window of 32 with 4 sinks.
  void Compare(uint32_t num_layers, nlohmann::ordered_json& result) const {
    const TinyModelSpec spec = {
        .num_layers = num_layers, .vocab_size = 272, .context_tokens = 256, .has_tokenizer = true};
    const std::vector<uint8_t> bytes = TinyModelBytes(spec);
    EngineOptions options;
    options.model_path = directory_ + "/tiny.gguf";
    std::ofstream(options.model_path, std::ios::binary)
        .write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
    options.activations = ActivationMode::kF32;
    options.cache.k_type = options.cache.v_type = KvType::kF32;
    options.cache.block_size = 16;
    options.cache.window_tokens = 32;
    options.cache.num_sinks = 4;
    auto engine = Engine::Open(options);
    ASSERT_TRUE(engine.ok()) << engine.status().ToString();
    const ScoreRequest request = {.tokens = RandomTokens(120, spec.vocab_size, 5), .first_scored = 1};
    const auto scores = (*engine)->Score(request);
    ASSERT_TRUE(scores.ok()) << scores.status().ToString();
    RecomputedWindow window = *RecomputedWindow::Create(options.cache, /*every=*/1);
    uint64_t done = 0;

    const Status status = window.Add(**engine, request.tokens, 1, *scores, [&](uint64_t tokens_done) {
      done = tokens_done;
      return true;
    });

    ASSERT_TRUE(status.ok()) << status.ToString();
    result = window.Json();
    EXPECT_EQ(result["tokens"], 120 - 37);
    EXPECT_EQ(done, (120 - 37) * window.TokensPerTarget());
  }

  std::string directory_;
};

// In a model of one layer keys and values depend on their own token alone, and RoPE on distances alone.
TEST_F(RecomputeTest, OneLayerLosesNothingAsLongAsTheSameTokensAreSeen) {
  nlohmann::ordered_json result;
  Compare(/*num_layers=*/1, result);

  const auto& alone = result["recomputed"][0];
  const auto& with_sinks = result["recomputed"][1];
  EXPECT_EQ(with_sinks["sinks"], 4);
  EXPECT_LT(std::abs(with_sinks["cached_less_this"].get<double>()), 1e-5);
  EXPECT_LT(with_sinks["cached_less_this_error"].get<double>(), 1e-5);
  EXPECT_GT(alone["cached_less_this_error"].get<double>(), 1e-4);
  EXPECT_NEAR(result["cached_nll"].get<double>() - with_sinks["nll"].get<double>(), 0, 1e-5);
}

// With more layers the cache remembers tokens that have left the window.
TEST_F(RecomputeTest, TwoLayersDiffer) {
  nlohmann::ordered_json result;
  Compare(/*num_layers=*/2, result);

  EXPECT_GT(result["recomputed"][1]["cached_less_this_error"].get<double>(), 1e-4);
}

}  // namespace
}  // namespace kvern::cli
