#include "kvern/token_stream.h"

#include <gtest/gtest.h>

#include <atomic>

#include "engine/token_stream_state.h"
#include "tests/support/fake_engine.h"

namespace kvern {
namespace {

TEST(TokenStreamTest, PollTakesWhatIsThereAndDoesNotWait) {
  auto state = std::make_shared<TokenStream::State>();
  TokenStream stream(state);

  EXPECT_FALSE(stream.Poll().has_value());
  EXPECT_FALSE(stream.is_done());
  state->Emit({.token = 7, .text = "g"}, {});
  state->Finish(FinishReason::kLength, Status::Ok(), {});
  EXPECT_FALSE(stream.is_done());
  EXPECT_EQ(stream.Poll()->token, 7);
  EXPECT_TRUE(stream.is_done());
  EXPECT_FALSE(stream.Poll().has_value());
}

TEST(TokenStreamTest, TheReaderIsWokenByEachEventAndByTheEnd) {
  auto state = std::make_shared<TokenStream::State>();
  TokenStream stream(state);
  int num_wakes = 0;

  stream.OnReady([&] { ++num_wakes; });
  EXPECT_EQ(num_wakes, 0);
  state->Emit({.token = 1, .text = "a"}, {});
  state->Emit({.token = 2, .text = "b"}, {});
  state->Finish(FinishReason::kLength, Status::Ok(), {});

  EXPECT_EQ(num_wakes, 3);
}

TEST(TokenStreamTest, AReaderThatComesLateIsWokenAtOnce) {
  auto state = std::make_shared<TokenStream::State>();
  TokenStream stream(state);
  state->Emit({.token = 1, .text = "a"}, {});
  int num_wakes = 0;

  stream.OnReady([&] { ++num_wakes; });

  EXPECT_EQ(num_wakes, 1);
}

TEST(TokenStreamTest, ADroppedStreamWakesNobodyAndIsCancelled) {
  auto state = std::make_shared<TokenStream::State>();
  int num_wakes = 0;
  {
    TokenStream stream(state);
    stream.OnReady([&] { ++num_wakes; });
  }

  state->Emit({.token = 1, .text = "a"}, {});

  EXPECT_EQ(num_wakes, 0);
  EXPECT_TRUE(state->is_cancelled);
}

TEST(TokenStreamTest, AnAnswerReadByPollingIsThatOfNext) {
  const FakeEngine fake = MakeFakeEngine(FakeEngineOptions());
  TokenStream stream = fake.engine->Submit({.prompt = Prompt(8), .max_tokens = 20}).value();
  std::atomic<uint64_t> num_wakes = 0;
  stream.OnReady([&] {
    ++num_wakes;
    num_wakes.notify_one();
  });

  std::vector<TokenId> tokens;
  while (!stream.is_done()) {
    const uint64_t seen = num_wakes;
    while (const auto event = stream.Poll()) tokens.push_back(event->token);
    if (!stream.is_done()) num_wakes.wait(seen);
  }

  EXPECT_EQ(tokens, FakeGreedyAnswer(Prompt(8), 20));
}

}  // namespace
}  // namespace kvern
