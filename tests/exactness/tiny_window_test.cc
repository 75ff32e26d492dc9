// Windows and pinned tokens on small random models: every cut, target and batch, cached or not, gives the bits of each
// sequence alone, token by token, in generic code.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "kernels/dispatch.h"
#include "tests/support/forward_harness.h"
#include "tests/support/tiny_model.h"

namespace kvern {
namespace {

using Tokens = std::vector<std::vector<TokenId>>;

const KernelTable& Generic() { return *RunnableTargets().front(); }

const std::vector<PositionRange> kSinks = {{0, 4}};
const std::vector<PositionRange> kSinksAndGlobals = {{0, 2}, {9, 12}};

Tokens Sequences(const TinyModelSpec& spec, const std::vector<uint32_t>& lengths) {
  Tokens sequences;
  for (uint32_t length : lengths) sequences.push_back(RandomTokens(length, spec.vocab_size, 100 + sequences.size()));
  return sequences;
}

void ExpectEqual(const std::vector<ForwardTrace>& found, const std::vector<ForwardTrace>& expected,
                 const std::string& what) {
  ASSERT_EQ(found.size(), expected.size());
  for (size_t i = 0; i < found.size(); ++i) {
    EXPECT_EQ(found[i].FirstDifference(expected[i]), "") << what << ", sequence " << i;
  }
}

TEST(TinyWindowTest, EveryTargetThreadCountBlockSizeChunkAndBatchGivesTheSameBits) {
  const TinyModelSpec spec = {.num_heads = 6, .num_kv_heads = 2, .head_dim = 32};
  const Tokens sequences = Sequences(spec, {61, 37, 5});
  LoadedTinyModel oracle = LoadTinyModel(spec, Generic(), /*num_threads=*/1);
  for (const AttentionSpan& span : {AttentionSpan{7}, AttentionSpan{16}, AttentionSpan{12, kSinks},
                                    AttentionSpan{17, kSinksAndGlobals}, AttentionSpan{1, kSinks}}) {
    std::vector<ForwardTrace> expected;
    for (const auto& tokens : sequences) {
      expected.push_back(RunForward(*oracle.model, Generic(), {tokens}, {.chunk = 1, .span = span}).traces[0]);
    }
    for (const KernelTable* target : RunnableTargets()) {
      for (uint32_t threads : {1u, 3u}) {
        if (target == &Generic() && threads == 1) continue;
        LoadedTinyModel tiny = LoadTinyModel(spec, *target, threads);
        for (uint32_t block_size : {16u, 64u}) {
          for (uint32_t chunk : {1u, 3u, 16u, 17u, 0u}) {
            ForwardPlan plan = {.block_size = block_size, .chunk = chunk, .span = span};
            const std::string what = std::string(target->name) + ", " + std::to_string(threads) + " threads, ";

            ExpectEqual(RunForward(*tiny.model, *target, sequences, plan).traces, expected, what + plan.ToString());
            ExpectEqual(RunForward(*tiny.model, *target, {sequences[1]}, plan).traces, {expected[1]},
                        what + plan.ToString() + ", alone");
            plan.is_uncached = true;
            if (chunk == 3 && target != &Generic()) {
              ExpectEqual(RunForward(*tiny.model, *target, sequences, plan).traces, expected, what + plan.ToString());
            }
            ASSERT_FALSE(HasFailure()) << "the first difference is enough";
          }
        }
      }
    }
  }
}

TEST(TinyWindowTest, WindowsThatCrossSplitsGiveTheSameBits) {
  const TinyModelSpec spec = {.num_layers = 1, .num_heads = 3, .num_kv_heads = 1, .head_dim = 64};
  const Tokens sequences = Sequences(spec, {700, 257});
  for (const AttentionSpan& span : {AttentionSpan{200}, AttentionSpan{256, kSinks}}) {
    LoadedTinyModel oracle = LoadTinyModel(spec, Generic(), /*num_threads=*/1);
    std::vector<ForwardTrace> expected;
    for (const auto& tokens : sequences) {
      expected.push_back(RunForward(*oracle.model, Generic(), {tokens}, {.chunk = 1, .span = span}).traces[0]);
    }
    for (const KernelTable* target : RunnableTargets()) {
      if (target == &Generic()) continue;
      LoadedTinyModel tiny = LoadTinyModel(spec, *target, /*num_threads=*/2);
      for (uint32_t block_size : {16u, 256u}) {
        for (uint32_t chunk : {1u, 64u, 255u, 0u}) {
          const ForwardPlan plan = {.block_size = block_size, .chunk = chunk, .span = span};

          ExpectEqual(RunForward(*tiny.model, *target, sequences, plan).traces, expected,
                      std::string(target->name) + ", " + plan.ToString());
          ASSERT_FALSE(HasFailure());
        }
      }
    }
  }
}

TEST(TinyWindowTest, AWindowLargerThanTheContextIsNone) {
  const TinyModelSpec spec = {.num_heads = 6, .num_kv_heads = 2, .head_dim = 32};
  const Tokens sequences = Sequences(spec, {61, 37});
  for (const KernelTable* target : RunnableTargets()) {
    LoadedTinyModel tiny = LoadTinyModel(spec, *target, /*num_threads=*/2);
    for (uint32_t chunk : {1u, 0u}) {
      const ForwardOutcome expected = RunForward(*tiny.model, *target, sequences, {.chunk = chunk});
      for (const AttentionSpan& span : {AttentionSpan{61}, AttentionSpan{61, kSinks}, AttentionSpan{UINT32_MAX}}) {
        const ForwardOutcome found = RunForward(*tiny.model, *target, sequences, {.chunk = chunk, .span = span});

        ExpectEqual(found.traces, expected.traces, target->name);
        EXPECT_EQ(found.query_key_products, expected.query_key_products);
      }
    }
  }
}

TEST(TinyWindowTest, TokensBeyondAllWindowsDoNotMatter) {
  const TinyModelSpec spec = {.num_layers = 2, .num_heads = 6, .num_kv_heads = 2, .head_dim = 32};
  Tokens one = Sequences(spec, {60}), other = one;
  for (size_t i = 0; i < 20; ++i) other[0][i] = (one[0][i] + 1) % static_cast<TokenId>(spec.vocab_size);
  LoadedTinyModel tiny = LoadTinyModel(spec, *RunnableTargets().back(), /*num_threads=*/2);
  const ForwardPlan plan = {.chunk = 7, .span = {10}};

  const ForwardTrace a = RunForward(*tiny.model, *RunnableTargets().back(), one, plan).traces[0];
  const ForwardTrace b = RunForward(*tiny.model, *RunnableTargets().back(), other, plan).traces[0];

  // A row of the second layer sees 10 rows of the first, each of which saw 10 tokens.
  const auto same_from = static_cast<ptrdiff_t>((20 + 2 * 9) * spec.vocab_size);
  EXPECT_TRUE(std::equal(a.logits.begin() + same_from, a.logits.end(), b.logits.begin() + same_from));
  EXPECT_FALSE(std::equal(a.logits.begin() + same_from - spec.vocab_size, a.logits.begin() + same_from,
                          b.logits.begin() + same_from - spec.vocab_size));
}

// In a model of one layer, keys and values depend on their own token only. A row far behind the pinned tokens then sees
// what it would see if these and its window were the whole sequence, but for the rounding of other angles.
TEST(TinyWindowTest, RowsSeePinnedTokensAsIfTheyStoodRightBeforeTheWindow) {
  const TinyModelSpec spec = {.num_layers = 1, .num_heads = 6, .num_kv_heads = 2, .head_dim = 32};
  const std::vector<TokenId> tokens = Sequences(spec, {60})[0];
  LoadedTinyModel tiny = LoadTinyModel(spec, *RunnableTargets().back(), /*num_threads=*/1, ActivationMode::kF32);
  const ForwardTrace found =
      RunForward(*tiny.model, *RunnableTargets().back(), {tokens}, {.chunk = 7, .span = {10, kSinks}}).traces[0];

  for (const ptrdiff_t position : {14, 20, 59}) {
    std::vector<TokenId> close(tokens.begin(), tokens.begin() + 4);
    close.insert(close.end(), tokens.begin() + position - 9, tokens.begin() + position + 1);
    const ForwardTrace expected = RunForward(*tiny.model, *RunnableTargets().back(), {close}, {}).traces[0];

    double largest = 0, difference = 0;
    for (size_t i = 0; i < spec.vocab_size; ++i) {
      const float x = expected.logits[13 * spec.vocab_size + i];
      largest = std::max(largest, std::fabs(double{x}));
      difference = std::max(difference, std::fabs(double{x} - found.logits[position * spec.vocab_size + i]));
    }
    EXPECT_LE(difference, 1e-4 * largest) << "position " << position;
  }
}

}  // namespace
}  // namespace kvern
