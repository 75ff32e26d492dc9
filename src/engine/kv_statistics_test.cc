#include "engine/kv_statistics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace kvern {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;

HeadRows Rows(const std::vector<float>& values, uint32_t head_dim) {
  return {values.data(), head_dim, static_cast<uint32_t>(values.size()) / head_dim, head_dim};
}

TEST(KvStatisticsTest, RowStatisticsAreThoseOfAKnownMatrix) {
  const std::vector<float> values = {3, 4, -3, 4, 3, -4, 3, 4};

  const RowStatistics s = StatisticsOf(Rows(values, 2));

  EXPECT_EQ(s.min, -4);
  EXPECT_EQ(s.max, 4);
  EXPECT_DOUBLE_EQ(s.mean, 14.0 / 8);
  EXPECT_DOUBLE_EQ(s.deviation, std::sqrt(12.5 - 1.75 * 1.75));
  EXPECT_DOUBLE_EQ(s.mean_norm, 5);
  EXPECT_DOUBLE_EQ(s.norm_deviation, 0);
  EXPECT_DOUBLE_EQ(s.outlier_ratio, 4 / 3.5);
  EXPECT_DOUBLE_EQ(s.mean_peak, 4);
  EXPECT_THAT(s.channel_means, ElementsAre(1.5, 2));
  EXPECT_DOUBLE_EQ(s.mean_share, (1.5 * 1.5 + 2 * 2) * 4 / 100);
  EXPECT_EQ(s.num_beyond_f16, 0u);
}

TEST(KvStatisticsTest, NumbersBeyondF16AreCounted) {
  const std::vector<float> values = {65504, -65505, 1e9f, 0};

  EXPECT_EQ(StatisticsOf(Rows(values, 2)).num_beyond_f16, 2u);
}

TEST(KvStatisticsTest, ASlowWaveIsCorrelatedWithItselfAndAnAlternatingOneIsNot) {
  std::vector<float> slow, alternating;
  for (int i = 0; i < 400; ++i) {
    slow.push_back(static_cast<float>(std::sin(i * 0.05)));
    alternating.push_back(i % 2 == 0 ? 1.0f : -1.0f);
  }

  EXPECT_GT(Lag1Of(Rows(slow, 1)), 0.99);
  EXPECT_LT(Lag1Of(Rows(alternating, 1)), -0.99);
  EXPECT_EQ(Lag1Of(Rows(std::vector<float>(10, 2.0f), 1)), 0);  // A channel that never changes says nothing.
}

TEST(KvStatisticsTest, CosinesOfParallelAndOrthogonalRows) {
  const std::vector<float> a = {1, 0, 0, 2}, b = {3, 0, 0, 1}, c = {0, 1, 5, 0};

  EXPECT_DOUBLE_EQ(MeanCosine(Rows(a, 2), Rows(b, 2)), 1);
  EXPECT_DOUBLE_EQ(MeanCosine(Rows(a, 2), Rows(c, 2)), 0);
}

TEST(KvStatisticsTest, EqualKeysGiveUniformAttention) {
  const std::vector<float> keys(2 * 128, 1.0f), query = {0.3f, 0.4f};

  const QueryAttention all = AttentionOf(query, Rows(keys, 2), 0, 127, 0.5);
  const QueryAttention window = AttentionOf(query, Rows(keys, 2), 96, 127, 0.5);

  EXPECT_NEAR(all.entropy, std::log(128), 1e-9);
  EXPECT_NEAR(all.sink_share, 4.0 / 128, 1e-9);
  EXPECT_NEAR(all.recent_share, 0.5, 1e-9);
  EXPECT_NEAR(all.score_deviation, 0, 1e-9);
  EXPECT_NEAR(window.entropy, std::log(32), 1e-9);
  EXPECT_EQ(window.sink_share, 0);
  EXPECT_NEAR(window.recent_share, 1, 1e-9);
}

ModelConfig Config() {
  ModelConfig config;
  config.num_layers = 2;
  config.num_heads = 2;
  config.num_kv_heads = 1;
  config.head_dim = 2;
  config.layer_groups = {{.window = 0, .num_layers = 2}};
  config.layer_places = {{0, 0}, {0, 1}};
  return config;
}

// A pass of 8 rows whose values depend on the layer; `change` may spoil some.
template <typename Change>
KvDiagnosis Observe(const ModelConfig& config, Change change) {
  constexpr uint32_t kRows = 8;
  KvStatistics statistics(config, kRows);
  for (uint32_t layer = 0; layer < config.num_layers; ++layer) {
    std::vector<float> q(kRows * 4, 0.5f), k, v;
    for (uint32_t i = 0; i < kRows * 2; ++i) {
      k.push_back(static_cast<float>(i + 1));
      v.push_back(static_cast<float>(i) * (layer == 0 ? 1.0f : -1.0f));
    }
    change(layer, q, k, v);
    for (const bool is_rotated : {false, true}) {
      statistics.Observe({layer, is_rotated, q.data(), 4, k.data(), v.data(), 2, 1.0f});
    }
  }
  EXPECT_EQ(statistics.layers_done(), config.num_layers);
  return statistics.Take();
}

TEST(KvStatisticsTest, LayersAreComparedWithTheOneBefore) {
  const ModelConfig config = Config();

  const KvDiagnosis diagnosis = Observe(config, [](auto...) {});

  ASSERT_THAT(diagnosis.heads, SizeIs(2));
  EXPECT_EQ(diagnosis.Head(0, 0).k_cosine_layers, 0);
  EXPECT_NEAR(diagnosis.Head(1, 0).k_cosine_layers, 1, 1e-9);
  EXPECT_NEAR(diagnosis.Head(1, 0).v_cosine_layers, -1, 1e-9);
  EXPECT_EQ(diagnosis.Head(1, 0).k.max, 16);
  EXPECT_GT(diagnosis.Head(0, 0).score_noise_int8, 0);
  EXPECT_FALSE(diagnosis.non_finite);
}

TEST(KvStatisticsTest, TheFirstValueThatIsNoNumberIsNamed) {
  const ModelConfig config = Config();

  const KvDiagnosis diagnosis = Observe(config, [](uint32_t layer, auto& q, auto& k, auto&) {
    if (layer != 1) return;
    k[2 * 5] = std::numeric_limits<float>::infinity();
    q[4 * 3 + 2] = std::numeric_limits<float>::quiet_NaN();
  });

  ASSERT_TRUE(diagnosis.non_finite);
  EXPECT_EQ(diagnosis.non_finite->row, 'Q');
  EXPECT_EQ(diagnosis.non_finite->layer, 1u);
  EXPECT_EQ(diagnosis.non_finite->head, 1u);
  EXPECT_EQ(diagnosis.non_finite->position, 3u);
  EXPECT_THAT(AdviceFor(diagnosis), ElementsAre(HasSubstr("Q is not finite in layer 1, head 1, at position 3")));
}

TEST(KvAdviceTest, KeysBeyondF16AreSaidWithWhereTheLargestIs) {
  const ModelConfig config = Config();

  const KvDiagnosis diagnosis = Observe(config, [](uint32_t layer, auto&, auto& k, auto&) {
    if (layer == 1) k[3] = -70000;
  });

  EXPECT_THAT(AdviceFor(diagnosis), Contains(AllOf(HasSubstr("f16 is NOT safe: 1 numbers"), HasSubstr("bf16"),
                                                   HasSubstr("7e+04 (layer 1, head 0)"))));
}

TEST(KvAdviceTest, QuietKeysAreSafeAndLoudOnesAreNot) {
  KvDiagnosis diagnosis;
  diagnosis.num_layers = diagnosis.num_kv_heads = 1;
  diagnosis.heads.resize(1);
  diagnosis.heads[0].score_noise_int8 = 0.001;
  diagnosis.heads[0].score_noise_int4 = 0.05;
  EXPECT_THAT(AdviceFor(diagnosis), Contains(HasSubstr("8-bit keys look safe")));
  EXPECT_THAT(AdviceFor(diagnosis), Contains(HasSubstr("4-bit keys may do")));

  diagnosis.heads[0].score_noise_int8 = 0.2;
  diagnosis.heads[0].score_noise_int4 = 2;
  diagnosis.heads[0].sink_share = 0.6;
  diagnosis.heads[0].k.outlier_ratio = 20;
  EXPECT_THAT(AdviceFor(diagnosis), Contains(HasSubstr("8-bit keys are doubtful")));
  EXPECT_THAT(AdviceFor(diagnosis), Contains(HasSubstr("k8v4")));
  EXPECT_THAT(AdviceFor(diagnosis), Contains(HasSubstr("--sinks 4")));
  EXPECT_THAT(AdviceFor(diagnosis), Contains(HasSubstr("breaks 4-bit keys")));
}

}  // namespace
}  // namespace kvern
