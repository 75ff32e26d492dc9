// SmolLM2 against what `transformers` computes in float32 (golden values), and int8 activations against f32 ones.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <numeric>

#include "base/check.h"
#include "kernels/dispatch.h"
#include "kvcache/block_layout.h"
#include "platform/affinity.h"
#include "platform/file_system.h"
#include "tensor/quant_formats.h"
#include "tests/support/real_model.h"
#include "tests/support/tiny_model.h"

namespace kvern {
namespace {

using nlohmann::json;

// One sequence that grows: blocks in a row, as many as the context needs.
class Sequence {
 public:
  Sequence(Model& model, uint32_t max_tokens, KvType kv_type) : model_(model) {
    const ModelConfig& config = model.config();
    auto layout = BlockLayout::Create({config.num_layers, config.num_kv_heads, config.head_dim}, 64, kv_type, kv_type);
    KVERN_CHECK(layout.ok());
    blocks_.resize(layout->BlocksFor(max_tokens));
    std::iota(blocks_.begin(), blocks_.end(), 0);
    auto memory = HeapAllocator().Allocate(blocks_.size() * layout->block_bytes());
    KVERN_CHECK(memory.ok());
    memory_ = std::move(memory).value();
    kv_ = layout->View(memory_.data());
  }

  // Logits of all rows of `tokens`, which follow what was appended before.
  std::vector<float> Append(std::span<const TokenId> tokens, const HiddenObserver* observer = nullptr) {
    std::vector<uint32_t> rows(tokens.size());
    std::iota(rows.begin(), rows.end(), 0);
    const SequenceRows sequence = {.first_row = 0,
                                   .num_rows = static_cast<uint32_t>(tokens.size()),
                                   .first_position = num_tokens_,
                                   .block_tables = {blocks_}};
    std::vector<float> logits(tokens.size() * model_.config().vocab_size);
    const auto stats = model_.Forward(
        {.tokens = tokens, .sequences = {&sequence, 1}, .kv = {kv_}, .logit_rows = rows, .observer = observer}, logits);
    KVERN_CHECK(stats.ok());
    num_tokens_ += static_cast<uint32_t>(tokens.size());
    return logits;
  }
  const KvView& kv() const { return kv_; }

 private:
  Model& model_;
  std::vector<BlockIndex> blocks_;
  AlignedBuffer memory_;
  KvView kv_;
  uint32_t num_tokens_ = 0;
};

// Log-probabilities of one row of logits, in double.
double LogSumExp(const float* logits, size_t n) {
  const double top = *std::max_element(logits, logits + n);
  double sum = 0;
  for (size_t i = 0; i < n; ++i) sum += std::exp(logits[i] - top);
  return top + std::log(sum);
}

class SmolLm2Test : public testing::Test {
 protected:
  void SetUp() override {
    if (SmolLm2Path().empty()) GTEST_SKIP() << "the model is not in models/: scripts/fetch_model.sh smollm2";
    golden_path_ = TestDataPath("golden/smollm2-135m-instruct-q4_1.json");
    if (golden_path_.empty()) GTEST_SKIP() << "KVERN_TEST_DATA is not set or has no golden values";
    golden_ = json::parse(std::ifstream(golden_path_));
    auto file = GgufFile::Open(PosixFileSystem(), SmolLm2Path());
    ASSERT_TRUE(file.ok()) << file.status().ToString();
    file_ = std::make_unique<GgufFile>(std::move(file).value());
    pool_ = std::make_unique<ThreadPool>(static_cast<uint32_t>(std::min<size_t>(UsableCpus().size(), 4)));
  }
  std::unique_ptr<Model> Load(ActivationMode mode) {
    auto model = LoadModel(
        *file_,
        {.activations = mode, .kernels = RunnableTargets().back(), .pool = pool_.get(), .allocator = &HeapAllocator()});
    KVERN_CHECK(model.ok());
    return std::move(model).value();
  }

  std::string golden_path_;
  json golden_;
  std::unique_ptr<GgufFile> file_;
  std::unique_ptr<ThreadPool> pool_;
};

TEST_F(SmolLm2Test, HiddenValuesKeysAndValuesOfEveryLayerAreThoseOfTransformers) {
  auto model = Load(ActivationMode::kF32);
  const ModelConfig& config = model->config();
  std::vector<float> norm(config.width);
  auto norm_tensor = file_->Tensor("output_norm.weight");
  ASSERT_TRUE(norm_tensor.ok());
  DecodeRow(norm_tensor->dtype, norm_tensor->data, norm);

  for (const json& golden : golden_["cases"]) {
    SCOPED_TRACE(golden["label"].get<std::string>());
    const auto ids = golden["ids"].get<std::vector<TokenId>>();
    std::vector<std::vector<float>> hidden;  // Of the last token.
    const HiddenObserver observer = [&](uint32_t, const float* x, size_t stride) {
      const float* row = x + (ids.size() - 1) * stride;
      hidden.emplace_back(row, row + config.width);
    };
    Sequence sequence(*model, static_cast<uint32_t>(ids.size()), KvType::kF32);
    sequence.Append(ids, &observer);
    ASSERT_EQ(hidden.size(), config.num_layers + 1);

    const auto embedding = golden["embedding_last_token_first8"].get<std::vector<float>>();
    for (int i = 0; i < 8; ++i) EXPECT_NEAR(hidden[0][i], embedding[i], 1e-6) << "embedding";
    std::vector<float> k(config.num_kv_heads * config.head_dim), v(k.size());
    for (uint32_t layer = 0; layer < config.num_layers; ++layer) {
      const json& expected = golden["layers"][layer];
      std::vector<float>& x = hidden[layer + 1];
      const double mean_square = std::inner_product(x.begin(), x.end(), x.begin(), 0.0) / config.width;
      if (layer + 1 == config.num_layers) {  // Golden values of the last layer are after the final norm.
        for (uint32_t i = 0; i < config.width; ++i) {
          x[i] = static_cast<float>(x[i] / std::sqrt(mean_square + config.norm_eps) * norm[i]);
        }
      }
      const double rms = expected["hidden_last_token_rms"].get<double>();
      for (int i = 0; i < 8; ++i) {
        EXPECT_NEAR(x[i], expected["hidden_last_token_first8"][i].get<double>(), 1e-4 * rms)
            << "hidden, layer " << layer;
      }
      const auto last = static_cast<uint32_t>(ids.size() - 1);
      RunnableTargets().back()->load_kv(sequence.kv(), layer, last / 64, last % 64, k.data(), v.data());
      const auto row_rms = [](const std::vector<float>& row) {
        return std::sqrt(std::inner_product(row.begin(), row.end(), row.begin(), 0.0) /
                         static_cast<double>(row.size()));
      };
      for (int i = 0; i < 8; ++i) {
        // transformers pairs (i, i + d/2); the file's rows are permuted so that the pair is (2i, 2i + 1).
        EXPECT_NEAR(k[2 * i], expected["k_last_token_head0_first8"][i].get<double>(), 1e-4 * row_rms(k))
            << "k, layer " << layer;
        EXPECT_NEAR(v[i], expected["v_last_token_head0_first8"][i].get<double>(), 1e-4 * row_rms(v))
            << "v, layer " << layer;
      }
    }
  }
}

TEST_F(SmolLm2Test, LogitsAndGreedyTokensAreThoseOfTransformers) {
  auto model = Load(ActivationMode::kF32);
  const size_t vocab = model->config().vocab_size;
  double worst = 0;
  for (const json& golden : golden_["cases"]) {
    SCOPED_TRACE(golden["label"].get<std::string>());
    const auto ids = golden["ids"].get<std::vector<TokenId>>();
    const auto greedy = golden["greedy_32"].get<std::vector<TokenId>>();
    Sequence sequence(*model, static_cast<uint32_t>(ids.size() + greedy.size()), KvType::kF32);

    std::vector<float> logits = sequence.Append(ids);

    const float* last = &logits[(ids.size() - 1) * vocab];
    for (int i = 0; i < 20; ++i) {
      const double difference =
          std::fabs(last[golden["top20_ids"][i].get<int>()] - golden["top20_logits"][i].get<double>());
      EXPECT_LT(difference, 1e-3);
      worst = std::max(worst, difference);
    }
    for (size_t i = 0; i * 997 < vocab; ++i) {
      const double difference = std::fabs(last[i * 997] - golden["logits_every_997"][i].get<double>());
      EXPECT_LT(difference, 1e-3);
      worst = std::max(worst, difference);
    }
    for (size_t i = 0; i < ids.size(); ++i) {
      EXPECT_NEAR(LogSumExp(&logits[i * vocab], vocab), golden["logsumexp_per_position"][i].get<double>(), 1e-3);
    }

    std::vector<TokenId> generated;
    for (size_t i = 0; i < greedy.size(); ++i) {
      const float* row = &logits[logits.size() - vocab];
      generated.push_back(static_cast<TokenId>(std::max_element(row, row + vocab) - row));
      logits = sequence.Append({&generated.back(), 1});
    }
    EXPECT_EQ(generated, greedy);
  }
  std::printf("worst logit difference %.2e\n", worst);
}

TEST_F(SmolLm2Test, LongTextIsAsLikelyAsTransformersSaysAndInt8ActivationsStayClose) {
  const auto ids = golden_["long_text"]["ids"].get<std::vector<TokenId>>();
  auto reference = Load(ActivationMode::kF32);
  auto int8 = Load(ActivationMode::kInt8);
  const size_t vocab = reference->config().vocab_size;
  Sequence exact(*reference, static_cast<uint32_t>(ids.size()), KvType::kF32);
  Sequence quantised(*int8, static_cast<uint32_t>(ids.size()), KvType::kF16);

  double nll_sum = 0, int8_nll_sum = 0;
  std::vector<double> divergence;
  size_t same_top = 0;
  constexpr size_t kChunk = 128;
  for (size_t begin = 0; begin < ids.size(); begin += kChunk) {
    const std::span<const TokenId> chunk(&ids[begin], std::min(kChunk, ids.size() - begin));
    const std::vector<float> p_logits = exact.Append(chunk);
    const std::vector<float> q_logits = quantised.Append(chunk);
    for (size_t i = 0; i < chunk.size() && begin + i + 1 < ids.size(); ++i) {
      const float* p = &p_logits[i * vocab];
      const float* q = &q_logits[i * vocab];
      const double p_norm = LogSumExp(p, vocab), q_norm = LogSumExp(q, vocab);
      const size_t position = begin + i;
      const double nll = p_norm - p[ids[position + 1]];
      if (position % 16 == 0) {
        EXPECT_NEAR(nll, golden_["long_text"]["nll_every_16"][position / 16].get<double>(), 2e-3) << position;
      }
      nll_sum += nll;
      int8_nll_sum += q_norm - q[ids[position + 1]];
      double kld = 0;
      for (size_t t = 0; t < vocab; ++t) kld += std::exp(p[t] - p_norm) * ((p[t] - p_norm) - (q[t] - q_norm));
      divergence.push_back(kld);
      same_top += std::max_element(p, p + vocab) - p == std::max_element(q, q + vocab) - q;
    }
  }

  const auto count = static_cast<double>(divergence.size());
  const double mean_nll = nll_sum / count;
  EXPECT_NEAR(mean_nll, golden_["long_text"]["nll_mean"].get<double>(), 2e-4);
  const double mean = std::accumulate(divergence.begin(), divergence.end(), 0.0) / count;
  double variance = 0;
  for (double d : divergence) variance += (d - mean) * (d - mean) / count;
  const double mean_error = std::sqrt(variance / count);
  const double top_share = static_cast<double>(same_top) / count;
  const double top_error = std::sqrt(top_share * (1 - top_share) / count);
  std::sort(divergence.begin(), divergence.end());
  std::printf(
      "f32: mean NLL %.6f (golden %.6f); int8 activations, f16 KV: mean NLL %+.5f, mean KLD %.5f +- %.5f, "
      "p99 %.4f, same top %.2f %% +- %.2f\n",
      mean_nll, golden_["long_text"]["nll_mean"].get<double>(), int8_nll_sum / count - mean_nll, mean, mean_error,
      divergence[divergence.size() * 99 / 100], 100 * top_share, 100 * top_error);
  EXPECT_LE(mean, 0.0020);
  EXPECT_GE(top_share + top_error, 0.978);
}

}  // namespace
}  // namespace kvern
