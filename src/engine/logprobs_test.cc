#include "engine/logprobs.h"

#include <gtest/gtest.h>

#include <cmath>

#include "kernels/dispatch.h"
#include "tests/support/fake_engine.h"

namespace kvern {
namespace {

// Every test runs on every target of this CPU.
class LogprobsTest : public ::testing::TestWithParam<const KernelTable*> {};

// Logarithms of 0.4, 0.3, 0.2, 0.1, all moved by 5.
const std::vector<float> kFour = {4.0837093f, 3.7960272f, 3.3905621f, 2.6974149f};

TEST_P(LogprobsTest, ProbabilitiesAreTheSoftmaxOfTheLogits) {
  LogprobReader reader(/*num_top=*/2, *GetParam());

  reader.Read(kFour, /*drawn=*/3);

  EXPECT_NEAR(std::exp(reader.drawn()), 0.1, 1e-6);
  ASSERT_EQ(reader.top().size(), 2u);
  EXPECT_EQ(reader.top()[0].token, 0);
  EXPECT_NEAR(std::exp(reader.top()[0].logprob), 0.4, 1e-6);
  EXPECT_EQ(reader.top()[1].token, 1);
  EXPECT_NEAR(std::exp(reader.top()[1].logprob), 0.3, 1e-6);
}

TEST_P(LogprobsTest, TheBestAreInOrderAndEqualOnesByTheirIds) {
  LogprobReader reader(/*num_top=*/20, *GetParam());

  reader.Read(std::vector<float>{1, 3, 2, 3, -2}, /*drawn=*/0);

  std::vector<TokenId> tokens;
  for (const TokenLogprob& top : reader.top()) tokens.push_back(top.token);
  EXPECT_EQ(tokens, (std::vector<TokenId>{1, 3, 2, 0, 4}));
  EXPECT_EQ(reader.top()[3].logprob, reader.drawn());
}

TEST_P(LogprobsTest, NoneAreNamedWhereNoneAreWanted) {
  LogprobReader reader(/*num_top=*/0, *GetParam());

  reader.Read(kFour, /*drawn=*/0);

  EXPECT_TRUE(reader.top().empty());
}

INSTANTIATE_TEST_SUITE_P(Targets, LogprobsTest, ::testing::ValuesIn(RunnableTargets().begin(), RunnableTargets().end()),
                         [](const auto& test) {
                           std::string name = test.param->name;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

TEST(EngineLogprobsTest, TheyAreOfTheModelAndNotOfTheSampling) {
  const FakeEngine fake = MakeFakeEngine(FakeEngineOptions());
  Request request = {.prompt = Prompt(8), .max_tokens = 4, .wants_logprobs = true, .num_top_logprobs = 3};
  request.sampling.logit_bias = {{9, 100.0f}};

  TokenStream stream = fake.engine->Submit(request).value();

  int num_tokens = 0;
  std::vector<TokenId> tokens = Prompt(8);
  while (const auto event = stream.Next()) {
    ASSERT_EQ(event->token, 9);
    LogprobReader expected(3, *RunnableTargets().front());
    expected.Read(FakeLogits(tokens), 9);
    EXPECT_EQ(event->logprob, expected.drawn());
    ASSERT_EQ(event->top_logprobs.size(), 3u);
    EXPECT_EQ(event->top_logprobs[0].token, expected.top()[0].token);
    EXPECT_EQ(event->top_logprobs[0].logprob, expected.top()[0].logprob);
    tokens.push_back(9);
    ++num_tokens;
  }
  EXPECT_EQ(num_tokens, 4);
}

TEST(EngineLogprobsTest, TooManyAreRefused) {
  const FakeEngine fake = MakeFakeEngine(FakeEngineOptions());

  const Answer answer = Ask(*fake.engine, {.prompt = Prompt(8), .wants_logprobs = true, .num_top_logprobs = 21});

  EXPECT_EQ(answer.status.message(), "num_top_logprobs is 21, expected at most 20");
}

}  // namespace
}  // namespace kvern
