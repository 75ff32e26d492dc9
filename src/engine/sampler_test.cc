#include "engine/sampler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>

#include "engine/philox.h"
#include "kernels/dispatch.h"

namespace kvern {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::UnorderedElementsAre;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();

// Every test runs on every target of this CPU: their draws must be equal.
class SamplerTest : public ::testing::TestWithParam<const KernelTable*> {
 protected:
  TokenId Sample(const SamplingOptions& options, std::vector<float> logits, const std::vector<TokenId>& tokens = {0},
                 uint32_t choice_index = 0) {
    Sampler sampler(options, choice_index, *GetParam());
    return sampler.Sample(logits, tokens).value();
  }
  // How often each token is drawn, over `count` positions.
  std::map<TokenId, int> Draw(const SamplingOptions& options, const std::vector<float>& logits, int count) {
    Sampler sampler(options, 0, *GetParam());
    std::map<TokenId, int> counts;
    std::vector<TokenId> tokens;
    for (int i = 0; i < count; ++i) {
      std::vector<float> copy = logits;
      ++counts[sampler.Sample(copy, tokens).value()];
      tokens.push_back(0);
    }
    return counts;
  }
  std::set<TokenId> Drawn(const SamplingOptions& options, const std::vector<float>& logits, int count = 300) {
    std::set<TokenId> drawn;
    for (const auto& [token, times] : Draw(options, logits, count)) drawn.insert(token);
    return drawn;
  }
};

// log of the probabilities 0.4, 0.3, 0.2, 0.1.
const std::vector<float> kFour = {-0.9162907f, -1.2039728f, -1.6094379f, -2.3025851f};

std::vector<float> ManyLogits(size_t n) {
  std::vector<float> logits(n);
  for (size_t i = 0; i < n; ++i) logits[i] = static_cast<float>(10 * UniformAt(99, 0, i));
  return logits;
}

TEST_P(SamplerTest, GreedyTakesTheLargestAndOfEqualsTheLowestId) {
  EXPECT_EQ(Sample({}, {1, 3, 2, 3}), 1);
  EXPECT_EQ(Sample({}, {-5}), 0);
  EXPECT_EQ(Sample({}, {-2, -2, -2}), 0);
}

TEST_P(SamplerTest, LogitsThatAreNotFiniteNeverWin) {
  EXPECT_EQ(Sample({}, {kNan, 1, 2}), 2);
  EXPECT_EQ(Sample({}, {kInf, 1, kNan, 2, -kInf}), 3);
  EXPECT_EQ(Drawn({.temperature = 1}, {kNan, 1, kInf, 1, -kInf}), (std::set<TokenId>{1, 3}));
  EXPECT_EQ(Drawn({.temperature = 1, .top_k = 3}, {kNan, 1, kInf, 1, -kInf}), (std::set<TokenId>{1, 3}));
}

TEST_P(SamplerTest, NoFiniteLogitIsAnError) {
  for (const float temperature : {0.0f, 1.0f}) {
    Sampler sampler({.temperature = temperature}, 0, *GetParam());
    std::vector<float> logits = {kNan, kInf, -kInf};

    const Result<TokenId> token = sampler.Sample(logits, {});

    ASSERT_FALSE(token.ok());
    EXPECT_EQ(token.status().code(), StatusCode::kCorruption);
    EXPECT_THAT(token.status().message(), HasSubstr("no finite logit among 3"));
  }
}

TEST_P(SamplerTest, BiasIsAddedAndForbids) {
  EXPECT_EQ(Sample({.logit_bias = {{2, 5.0f}}}, {3, 2, 1}), 2);
  EXPECT_EQ(Sample({.logit_bias = {{0, -kInf}}}, {3, 2, 1}), 1);
}

TEST_P(SamplerTest, PenaltyWeakensEachTokenOfTheWindowOnce) {
  const SamplingOptions options{.repeat_penalty = 2, .repeat_window = 3};

  EXPECT_EQ(Sample(options, {4, 3, 1}, {0, 0, 0}), 1);     // 4 / 2 = 2 < 3, but not below 1.
  EXPECT_EQ(Sample(options, {4, 1.5f, 1}, {0, 0, 0}), 0);  // Divided once, not three times.
  EXPECT_EQ(Sample(options, {4, 3, 1}, {0, 2, 2, 2}), 0);  // Token 0 has left the window.
  EXPECT_EQ(Sample(options, {-1, -1.5f, -9}, {0, 2}), 1);  // Negative logits are multiplied.
}

TEST_P(SamplerTest, BiasComesBeforeThePenalty) {
  // (1 + 5) / 2 = 3 < 4; in the other order it would be 1 / 2 + 5 = 5.5.
  EXPECT_EQ(Sample({.repeat_penalty = 2, .logit_bias = {{0, 5.0f}}}, {1, 4}, {0}), 1);
}

TEST_P(SamplerTest, TopKKeepsTheBestAndOfEqualsTheLowestIds) {
  EXPECT_EQ(Drawn({.temperature = 1, .top_k = 2}, {1, 2, 2, 2}), (std::set<TokenId>{1, 2}));
  EXPECT_EQ(Drawn({.temperature = 1, .top_k = 1}, {1, 2, 2, 2}), (std::set<TokenId>{1}));
  EXPECT_EQ(Drawn({.temperature = 1, .top_k = 9}, {1, 2, 2, 2}), (std::set<TokenId>{0, 1, 2, 3}));
}

TEST_P(SamplerTest, TopPKeepsTheFewestThatReachIt) {
  EXPECT_EQ(Drawn({.temperature = 1, .top_p = 0.39f}, kFour), (std::set<TokenId>{0}));
  EXPECT_EQ(Drawn({.temperature = 1, .top_p = 0.41f}, kFour), (std::set<TokenId>{0, 1}));
  EXPECT_EQ(Drawn({.temperature = 1, .top_p = 0.69f}, kFour), (std::set<TokenId>{0, 1}));
  EXPECT_EQ(Drawn({.temperature = 1, .top_p = 0.71f}, kFour), (std::set<TokenId>{0, 1, 2}));
  EXPECT_EQ(Drawn({.temperature = 1, .top_p = 1e-6f}, kFour), (std::set<TokenId>{0}));
}

TEST_P(SamplerTest, TopPCountsWhatTopKHasLeft) {
  // Of two, the first has 0.4 / 0.7 = 0.57.
  EXPECT_EQ(Drawn({.temperature = 1, .top_k = 2, .top_p = 0.55f}, kFour), (std::set<TokenId>{0}));
  EXPECT_EQ(Drawn({.temperature = 1, .top_p = 0.55f}, kFour), (std::set<TokenId>{0, 1}));
}

TEST_P(SamplerTest, MinPDropsWhatIsUnlikelyBesideTheBest) {
  EXPECT_EQ(Drawn({.temperature = 1, .min_p = 0.51f}, kFour), (std::set<TokenId>{0, 1}));
  EXPECT_EQ(Drawn({.temperature = 1, .min_p = 0.49f}, kFour), (std::set<TokenId>{0, 1, 2}));
  EXPECT_EQ(Drawn({.temperature = 1, .min_p = 1.0f}, kFour), (std::set<TokenId>{0}));
}

TEST_P(SamplerTest, TemperatureComesBeforeTheCuts) {
  // At temperature 0.5 the probabilities are 16 : 9 : 4 : 1 of 30.
  EXPECT_EQ(Drawn({.temperature = 0.5f, .top_p = 0.52f}, kFour), (std::set<TokenId>{0}));
  EXPECT_EQ(Drawn({.temperature = 0.5f, .min_p = 0.3f}, kFour), (std::set<TokenId>{0, 1}));
}

TEST_P(SamplerTest, TinyTemperatureIsGreedy) {
  EXPECT_EQ(Drawn({.temperature = 1e-30f}, {1, 1.01f, 0}), (std::set<TokenId>{1}));
  EXPECT_EQ(Drawn({.temperature = 1e-30f}, {3e38f, -3e38f}), (std::set<TokenId>{0}));
}

TEST_P(SamplerTest, DrawsFollowTheProbabilities) {
  constexpr int kDraws = 20000;
  for (const SamplingOptions& options :
       {SamplingOptions{.temperature = 1, .seed = 3}, SamplingOptions{.temperature = 1, .top_k = 3, .seed = 4},
        SamplingOptions{.temperature = 2, .top_p = 0.9999f, .seed = 5}}) {
    std::vector<double> expected;
    for (const float logit : kFour) expected.push_back(std::exp(static_cast<double>(logit / options.temperature)));
    if (options.top_k == 3) expected[3] = 0;
    double sum = 0;
    for (const double e : expected) sum += e;

    std::map<TokenId, int> counts = Draw(options, kFour, kDraws);

    double chi_square = 0;
    for (size_t i = 0; i < expected.size(); ++i) {
      const double mean = kDraws * expected[i] / sum;
      const double difference = counts[static_cast<TokenId>(i)] - mean;
      if (mean == 0) {
        EXPECT_EQ(difference, 0);
      } else {
        chi_square += difference * difference / mean;
      }
    }
    EXPECT_LT(chi_square, 16.3);  // 3 degrees of freedom, one in a thousand; the seed is fixed.
  }
}

TEST_P(SamplerTest, DrawsAreThoseOfTheUniformNumbers) {
  // In the order of ids: the first token whose cumulated probability exceeds the number.
  Sampler sampler({.temperature = 1, .seed = 11}, /*choice_index=*/2, *GetParam());
  std::vector<TokenId> tokens = {0};
  for (int i = 0; i < 50; ++i) {
    const double u = UniformAt(11, 2, tokens.size());
    const TokenId expected = u < 0.4 ? 0 : u < 0.7 ? 1 : u < 0.9 ? 2 : 3;
    std::vector<float> logits = kFour;

    EXPECT_EQ(sampler.Sample(logits, tokens).value(), expected);

    tokens.push_back(0);
  }
}

TEST_P(SamplerTest, KnownDrawsStayAsTheyAre) {
  const std::vector<float> logits = ManyLogits(1000);
  std::vector<TokenId> drawn;
  for (uint32_t choice = 0; choice < 3; ++choice) {
    for (const SamplingOptions& options :
         {SamplingOptions{.temperature = 0.8f, .seed = 42},
          SamplingOptions{.temperature = 0.8f, .top_k = 40, .seed = 42},
          SamplingOptions{.temperature = 1.5f, .top_p = 0.9f, .min_p = 0.05f, .seed = 42}}) {
      drawn.push_back(Sample(options, logits, {1, 2, 3}, choice));
    }
  }

  // Worked out apart from this code, in double precision.
  EXPECT_THAT(drawn, ElementsAre(657, 73, 411, 661, 928, 565, 896, 333, 370));
}

TEST_P(SamplerTest, PresenceAndFrequencyCountTheAnswerAndNotThePrompt) {
  const auto next = [&](SamplingOptions options, const std::vector<TokenId>& tokens) {
    Sampler sampler(options, 0, *GetParam(), /*prompt_tokens=*/3);
    return sampler.Sample(std::vector<float>{3.0f, 2.5f, 1.9f}, tokens).value();
  };

  EXPECT_EQ(next({.presence_penalty = 1}, {0, 0, 0}), 0);
  EXPECT_EQ(next({.presence_penalty = 1}, {1, 1, 1, 0}), 1);
  EXPECT_EQ(next({.presence_penalty = 1}, {1, 1, 1, 0, 1}), 0);  // 2, 1.5, 1.9: once or often is the same.
  EXPECT_EQ(next({.presence_penalty = 1}, {1, 1, 1, 0, 0, 1}), 0);
  EXPECT_EQ(next({.frequency_penalty = 0.7f}, {1, 1, 1, 0, 0, 1}), 2);  // 1.6, 1.8, 1.9.
  EXPECT_EQ(next({.frequency_penalty = -1}, {1, 1, 1, 1}), 1);
}

TEST_P(SamplerTest, CountsGoOnFromCallToCall) {
  Sampler sampler({.frequency_penalty = 1}, 0, *GetParam(), /*prompt_tokens=*/1);
  std::vector<TokenId> tokens = {0};
  for (int i = 0; i < 6; ++i) tokens.push_back(sampler.Sample(std::vector<float>{2.6f, 2.0f, 0.5f}, tokens).value());

  EXPECT_THAT(tokens, ElementsAre(0, 0, 1, 0, 1, 0, 2));
}

TEST_P(SamplerTest, TopKAgreesWithAFullSort) {
  const std::vector<float> logits = ManyLogits(777);
  std::vector<TokenId> sorted(logits.size());
  for (size_t i = 0; i < sorted.size(); ++i) sorted[i] = static_cast<TokenId>(i);
  std::sort(sorted.begin(), sorted.end(),
            [&](TokenId a, TokenId b) { return logits[static_cast<size_t>(a)] > logits[static_cast<size_t>(b)]; });

  for (const uint32_t k : {1u, 2u, 5u, 100u, 776u}) {
    const std::set<TokenId> best(sorted.begin(), sorted.begin() + k);
    const std::set<TokenId> drawn = Drawn({.temperature = 100, .top_k = k}, logits, 3000);
    EXPECT_TRUE(std::includes(best.begin(), best.end(), drawn.begin(), drawn.end()));
    if (k <= 100) {
      EXPECT_EQ(drawn, best);
    }
  }
}

TEST_P(SamplerTest, TopKFindsTheBestWhereverTheyStand) {
  for (const size_t n : {31u, 32u, 33u, 65u, 100u}) {
    for (size_t best = 0; best < n; ++best) {
      std::vector<float> logits(n, 1.0f);  // The second best is the first of many equals.
      logits[best] = 2;
      logits[(best + 1) % n] = kNan;
      logits[(best + 2) % n] = kInf;
      TokenId second = 0;
      while (logits[static_cast<size_t>(second)] != 1.0f) ++second;

      EXPECT_THAT(Drawn({.temperature = 100, .top_k = 2}, logits, 40),
                  UnorderedElementsAre(static_cast<TokenId>(best), second));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Targets, SamplerTest, ::testing::ValuesIn(RunnableTargets().begin(), RunnableTargets().end()),
                         [](const auto& test) {
                           std::string name = test.param->name;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

}  // namespace
}  // namespace kvern
