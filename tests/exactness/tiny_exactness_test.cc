// Hit equals miss, bit for bit: on small random models every cut of the work gives the logits, keys and values of the
// plain forward pass in `generic` code, which computes each sequence alone and whole on one thread.
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "kernels/dispatch.h"
#include "tests/support/forward_harness.h"
#include "tests/support/tiny_model.h"

namespace kvern {
namespace {

// Shapes: every weight type, GQA 1 to 8, head sizes 32 to 256, tied and own heads, partial panels, layers with windows.
const std::vector<TinyModelSpec>& Specs() {
  static const std::vector<TinyModelSpec> specs = {
      {.num_heads = 6, .num_kv_heads = 2, .head_dim = 32, .dtype = DType::kQ4_1},
      {.num_heads = 8, .num_kv_heads = 1, .head_dim = 32, .dtype = DType::kQ4_0, .has_output = true},
      {.num_heads = 2, .num_kv_heads = 2, .head_dim = 64, .dtype = DType::kQ8_0, .embd_dtype = DType::kF16},
      {.width = 32,
       .num_heads = 4,
       .num_kv_heads = 1,
       .head_dim = 128,
       .dtype = DType::kQ5_0,
       .has_rope_factors = true},
      {.width = 32, .num_heads = 3, .num_kv_heads = 1, .head_dim = 256, .dtype = DType::kQ5_1, .rope_linear_factor = 4},
      {.num_layers = 1,
       .width = 256,
       .ffn_width = 256,
       .num_heads = 4,
       .num_kv_heads = 2,
       .head_dim = 64,
       .vocab_size = 64,
       .dtype = DType::kQ4_K,
       .embd_dtype = DType::kQ6_K},
      {.num_layers = 1,
       .width = 256,
       .ffn_width = 256,
       .num_heads = 8,
       .num_kv_heads = 8,
       .head_dim = 32,
       .dtype = DType::kQ6_K,
       .embd_dtype = DType::kQ5_K,
       .has_output = true},
      {.num_layers = 1,
       .width = 256,
       .ffn_width = 256,
       .num_heads = 16,
       .num_kv_heads = 2,
       .head_dim = 16,
       .dtype = DType::kQ5_K,
       .embd_dtype = DType::kQ4_0},
      {.width = 48,
       .ffn_width = 80,
       .num_heads = 5,
       .num_kv_heads = 1,
       .head_dim = 48,
       .dtype = DType::kF16,
       .embd_dtype = DType::kF32},
      {.width = 48,
       .ffn_width = 80,
       .num_heads = 7,
       .num_kv_heads = 1,
       .head_dim = 80,
       .dtype = DType::kBF16,
       .embd_dtype = DType::kBF16},
      {.architecture = "gemma3",
       .num_layers = 3,
       .num_heads = 4,
       .num_kv_heads = 1,
       .head_dim = 48,
       .dtype = DType::kQ5_0,
       .window = 16},
      {.architecture = "gemma3",
       .width = 256,
       .ffn_width = 256,
       .num_heads = 4,
       .num_kv_heads = 2,
       .head_dim = 256,
       .dtype = DType::kQ4_K,
       .embd_dtype = DType::kQ6_K,
       .rope_linear_factor = 8,
       .window = 20},
  };
  return specs;
}

std::vector<std::vector<TokenId>> Sequences(const TinyModelSpec& spec, const std::vector<uint32_t>& lengths) {
  std::vector<std::vector<TokenId>> sequences;
  for (uint32_t length : lengths) sequences.push_back(RandomTokens(length, spec.vocab_size, 100 + sequences.size()));
  return sequences;
}

const KernelTable& Generic() { return *RunnableTargets().front(); }

// Each sequence alone and whole, in generic code on one thread.
std::vector<ForwardTrace> Reference(const TinyModelSpec& spec, const std::vector<std::vector<TokenId>>& sequences,
                                    KvType kv_type, ActivationMode mode) {
  LoadedTinyModel tiny = LoadTinyModel(spec, Generic(), /*num_threads=*/1, mode);
  std::vector<ForwardTrace> traces;
  for (const std::vector<TokenId>& tokens : sequences) {
    traces.push_back(std::move(RunForward(*tiny.model, Generic(), {tokens}, {.kv_type = kv_type}).traces[0]));
  }
  return traces;
}

void ExpectEqual(const std::vector<ForwardTrace>& found, const std::vector<ForwardTrace>& expected,
                 const std::string& what) {
  ASSERT_EQ(found.size(), expected.size());
  for (size_t i = 0; i < found.size(); ++i) {
    EXPECT_EQ(found[i].FirstDifference(expected[i]), "") << what << ", sequence " << i;
  }
}

class TinyExactnessTest : public testing::TestWithParam<std::tuple<size_t, ActivationMode>> {
 protected:
  const TinyModelSpec& spec() const { return Specs()[std::get<0>(GetParam())]; }
  ActivationMode mode() const { return std::get<1>(GetParam()); }
};

TEST_P(TinyExactnessTest, EveryTargetThreadCountBlockSizeChunkCodecAndBatchGivesTheSameBits) {
  const auto sequences = Sequences(spec(), {19, 37, 5});
  for (KvType kv_type : {KvType::kF32, KvType::kF16}) {
    const std::vector<ForwardTrace> expected = Reference(spec(), sequences, kv_type, mode());
    for (const KernelTable* target : RunnableTargets()) {
      // generic is the oracle itself and slow: two cuts show that it, too, does not depend on them.
      const bool is_generic = target == &Generic();
      for (uint32_t threads : {1u, 2u, 3u}) {
        if (is_generic && threads == 2) continue;
        LoadedTinyModel tiny = LoadTinyModel(spec(), *target, threads, mode());
        for (uint32_t block_size : {16u, 32u, 64u, 256u}) {
          if (is_generic && block_size != 16) continue;
          for (uint32_t chunk : {1u, 2u, 3u, 7u, 16u, 64u, 512u, 0u}) {
            if (is_generic && chunk != 7) continue;
            const ForwardPlan plan = {.block_size = block_size, .chunk = chunk, .kv_type = kv_type};
            const std::string what = std::string(target->name) + ", " + std::to_string(threads) + " threads, " +
                                     plan.ToString() + ", " + spec().ToString();

            const ForwardOutcome batched = RunForward(*tiny.model, *target, sequences, plan);
            ExpectEqual(batched.traces, expected, what + ", batched");
            const ForwardOutcome alone = RunForward(*tiny.model, *target, {sequences[1]}, plan);
            ExpectEqual(alone.traces, {expected[1]}, what + ", alone");
            ASSERT_FALSE(HasFailure()) << "the first difference is enough";
          }
        }
      }
    }
  }
}

TEST_P(TinyExactnessTest, ComputingEverythingAgainInEveryStepGivesTheSameBits) {
  const auto sequences = Sequences(spec(), {21, 33});
  const std::vector<ForwardTrace> expected = Reference(spec(), sequences, KvType::kF16, mode());
  for (const KernelTable* target : RunnableTargets()) {
    if (target == &Generic()) continue;  // Quadratic work; the oracle's own cuts are covered above.
    LoadedTinyModel tiny = LoadTinyModel(spec(), *target, /*num_threads=*/2, mode());
    for (uint32_t chunk : {1u, 7u}) {
      const ForwardPlan plan = {.block_size = 16, .chunk = chunk, .kv_type = KvType::kF16, .is_uncached = true};
      ExpectEqual(RunForward(*tiny.model, *target, sequences, plan).traces, expected,
                  std::string(target->name) + ", " + plan.ToString());
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Shapes, TinyExactnessTest,
                         testing::Combine(testing::Range<size_t>(0, 12),
                                          testing::Values(ActivationMode::kInt8, ActivationMode::kF32)),
                         [](const auto& param_info) {
                           const TinyModelSpec& spec = Specs()[std::get<0>(param_info.param)];
                           return spec.architecture + "_" + std::string(GetDTypeInfo(spec.dtype).name) + "_heads" +
                                  std::to_string(spec.num_heads) + "of" + std::to_string(spec.head_dim) +
                                  (std::get<1>(param_info.param) == ActivationMode::kInt8 ? "_int8" : "_f32");
                         });

// Every size of a batch that decodes, from one sequence to 64: the products change their tiles within.
TEST_P(TinyExactnessTest, EveryBatchOf1To64DecodingSequencesGivesTheSameBits) {
  std::vector<uint32_t> lengths(64);
  for (uint32_t i = 0; i < lengths.size(); ++i) lengths[i] = 2 + i % 3;
  const auto sequences = Sequences(spec(), lengths);
  const std::vector<ForwardTrace> expected = Reference(spec(), sequences, KvType::kF16, mode());
  for (const KernelTable* target : RunnableTargets()) {
    if (target == &Generic()) continue;
    LoadedTinyModel tiny = LoadTinyModel(spec(), *target, /*num_threads=*/2, mode());
    for (size_t size = 1; size <= sequences.size(); ++size) {
      const ForwardPlan plan = {.block_size = 16, .chunk = 1, .kv_type = KvType::kF16};
      const ForwardOutcome found =
          RunForward(*tiny.model, *target, {sequences.begin(), sequences.begin() + static_cast<ptrdiff_t>(size)}, plan);

      ExpectEqual(found.traces, {expected.begin(), expected.begin() + static_cast<ptrdiff_t>(size)},
                  std::string(target->name) + ", " + std::to_string(size) + " sequences");
      ASSERT_FALSE(HasFailure()) << "the first difference is enough";
    }
  }
}

// Codecs that round: against the uncached pass of generic with the same codecs, whatever the cut.
TEST(TinyExactnessCodecTest, EveryCodecGivesTheSameBitsInEveryCut) {
  constexpr std::pair<KvType, KvType> kPairs[] = {
      {KvType::kBF16, KvType::kF8E4M3}, {KvType::kF8E5M2, KvType::kBF16}, {KvType::kI8, KvType::kI8},
      {KvType::kI8, KvType::kI4},       {KvType::kI4, KvType::kI4Head},   {KvType::kI4Head, KvType::kI4},
      {KvType::kF8E4M3, KvType::kF16},  {KvType::kF32, KvType::kF8E5M2},
  };
  const TinyModelSpec spec = {.num_heads = 6, .num_kv_heads = 2, .head_dim = 64};
  const auto sequences = Sequences(spec, {19, 37, 5});
  for (const auto& [k_type, v_type] : kPairs) {
    std::vector<ForwardTrace> expected;
    LoadedTinyModel oracle = LoadTinyModel(spec, Generic(), /*num_threads=*/1);
    for (const std::vector<TokenId>& tokens : sequences) {
      const ForwardPlan whole = {.kv_type = k_type, .v_type = v_type};
      expected.push_back(std::move(RunForward(*oracle.model, Generic(), {tokens}, whole).traces[0]));
    }
    for (const KernelTable* target : RunnableTargets()) {
      if (target == &Generic()) continue;
      for (uint32_t threads : {1u, 2u}) {
        LoadedTinyModel tiny = LoadTinyModel(spec, *target, threads);
        for (const ForwardPlan& plan :
             {ForwardPlan{.block_size = 16, .chunk = 1, .kv_type = k_type, .v_type = v_type},
              ForwardPlan{.block_size = 64, .chunk = 7, .kv_type = k_type, .v_type = v_type},
              ForwardPlan{.block_size = 48, .chunk = 0, .kv_type = k_type, .v_type = v_type}}) {
          ExpectEqual(RunForward(*tiny.model, *target, sequences, plan).traces, expected,
                      std::string(target->name) + ", " + std::to_string(threads) + " threads, " + plan.ToString());
          ASSERT_FALSE(HasFailure()) << "the first difference is enough";
        }
      }
    }
  }
}

// Positions beyond one and two splits of attention (256 slots), where partial results are merged.
TEST(TinyExactnessLongTest, SequencesThatCrossSplitsGiveTheSameBits) {
  const TinyModelSpec spec = {.num_layers = 1, .num_heads = 3, .num_kv_heads = 1, .head_dim = 64};
  const auto sequences = Sequences(spec, {530, 257, 256});
  for (KvType kv_type : {KvType::kF32, KvType::kF16}) {
    const std::vector<ForwardTrace> expected = Reference(spec, sequences, kv_type, ActivationMode::kInt8);
    for (const KernelTable* target : RunnableTargets()) {
      if (target == &Generic()) continue;
      for (uint32_t threads : {1u, 2u, 3u}) {
        LoadedTinyModel tiny = LoadTinyModel(spec, *target, threads);
        for (uint32_t block_size : {16u, 64u, 256u, 512u}) {
          for (uint32_t chunk : {1u, 64u, 255u, 0u}) {
            const ForwardPlan plan = {.block_size = block_size, .chunk = chunk, .kv_type = kv_type};
            ExpectEqual(RunForward(*tiny.model, *target, sequences, plan).traces, expected,
                        std::string(target->name) + ", " + std::to_string(threads) + " threads, " + plan.ToString());
            ASSERT_FALSE(HasFailure());
          }
        }
      }
    }
  }
}

// Windows whose borders lie inside a granule, on a split of attention, and beyond one.
TEST(TinyExactnessLongTest, WindowsOfLayersThatCrossSplitsGiveTheSameBits) {
  for (const uint32_t window : {100u, 256u, 300u}) {
    const TinyModelSpec spec = {
        .architecture = "gemma3", .num_heads = 3, .num_kv_heads = 1, .head_dim = 64, .window = window};
    const auto sequences = Sequences(spec, {530, 257});
    const std::vector<ForwardTrace> expected = Reference(spec, sequences, KvType::kF16, ActivationMode::kInt8);
    for (const KernelTable* target : RunnableTargets()) {
      if (target == &Generic()) continue;
      for (uint32_t threads : {1u, 3u}) {
        LoadedTinyModel tiny = LoadTinyModel(spec, *target, threads);
        for (uint32_t block_size : {16u, 64u, 256u}) {
          for (uint32_t chunk : {1u, 64u, 255u, 0u}) {
            const ForwardPlan plan = {.block_size = block_size, .chunk = chunk, .kv_type = KvType::kF16};
            ExpectEqual(RunForward(*tiny.model, *target, sequences, plan).traces, expected,
                        std::string(target->name) + ", " + std::to_string(threads) + " threads, " + plan.ToString());
            ASSERT_FALSE(HasFailure());
          }
        }
      }
    }
  }
}

// For a context of n tokens theory knows how many keys are computed and how many query-key products are needed.
TEST(WorkCountersTest, CachedAndUncachedStepsDoExactlyTheWorkThatTheoryNames) {
  const TinyModelSpec spec = {.num_layers = 2, .num_heads = 6, .num_kv_heads = 2};
  const uint64_t per_pair = uint64_t{spec.num_layers} * spec.num_heads;
  const uint64_t n = 50;
  const auto sequences = Sequences(spec, {50});
  LoadedTinyModel tiny = LoadTinyModel(spec, *RunnableTargets().back(), /*num_threads=*/2);

  const ForwardOutcome cached =
      RunForward(*tiny.model, *RunnableTargets().back(), sequences, {.block_size = 16, .chunk = 1});
  const ForwardOutcome uncached = RunForward(*tiny.model, *RunnableTargets().back(), sequences,
                                             {.block_size = 16, .chunk = 1, .is_uncached = true});

  EXPECT_EQ(cached.rows_computed, n);
  EXPECT_EQ(cached.query_key_products, per_pair * n * (n + 1) / 2);  // The causal sum: each pair once.
  EXPECT_EQ(uncached.rows_computed, n * (n + 1) / 2);
  EXPECT_EQ(uncached.query_key_products, per_pair * n * (n + 1) * (n + 2) / 6);  // A causal sum in every step.
}

// Layers with a window need min(position + 1, window) products for each row and head, the others position + 1.
TEST(WorkCountersTest, LayersWithAWindowNeedItsProductsOnly) {
  const TinyModelSpec spec = {
      .architecture = "gemma3", .num_layers = 3, .num_heads = 6, .num_kv_heads = 2, .window = 32};
  const uint64_t n = 50, window = spec.window;
  LoadedTinyModel tiny = LoadTinyModel(spec, *RunnableTargets().back(), /*num_threads=*/2);
  ASSERT_EQ(tiny.model->config().layer_groups.size(), 2u);

  for (const uint32_t chunk : {1u, 7u, 0u}) {
    const ForwardOutcome found =
        RunForward(*tiny.model, *RunnableTargets().back(), Sequences(spec, {50}), {.block_size = 16, .chunk = chunk});

    const uint64_t of_full = n * (n + 1) / 2, of_local = window * (window + 1) / 2 + (n - window) * window;
    EXPECT_EQ(found.query_key_products, spec.num_heads * (of_full + 2 * of_local)) << "chunk " << chunk;
    EXPECT_EQ(found.rows_computed, n);
  }
}

}  // namespace
}  // namespace kvern
