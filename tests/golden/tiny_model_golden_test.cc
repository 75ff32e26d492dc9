// The same bits on every machine: digests of what small random models compute, on every target that this CPU has. Like
// docs/numerics.md, they change only with the numerics version (or with how a tiny model is made).
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <ostream>
#include <vector>

#include "kernels/dispatch.h"
#include "tests/support/forward_harness.h"
#include "tests/support/tiny_model.h"

namespace kvern {
namespace {

struct Golden {
  DType dtype;
  uint64_t with_int8, with_f32;  // Digests by the form of the activations.
};
void PrintTo(const Golden& golden, std::ostream* out) { *out << GetDTypeInfo(golden.dtype).name; }

constexpr Golden kGolden[] = {
    {DType::kF32, 0x7dbae3c92d7bfaf8, 0xdc9c64319059f62e},  {DType::kF16, 0xf9b9a351228bdc72, 0xead3375bf666b37d},
    {DType::kBF16, 0x36e22cee5c8a0fae, 0x6e7c4ecb15b4d99d}, {DType::kQ4_0, 0x32d62a61d9da5c14, 0x295f8d5897ce5d09},
    {DType::kQ4_1, 0x9d5da82081392e77, 0x2d57d0b986103a2b}, {DType::kQ5_0, 0xcda6c5d429333ef0, 0x4c6c7170964ffae3},
    {DType::kQ5_1, 0x4952d26cab38b3ba, 0xce496ced312999ff}, {DType::kQ8_0, 0xe43a5614c8727272, 0xd9aa5f5b1d499626},
    {DType::kQ4_K, 0x8cf718f042d62057, 0xac5b7348554e3848}, {DType::kQ5_K, 0x13383f3ceb2a85fd, 0xab19d75f6caff496},
    {DType::kQ6_K, 0xc5874f56c087ced4, 0x969fa69db82873f3},
};

// FNV-1a over the bits of the values, 32 at a time.
uint64_t AddToDigest(uint64_t digest, const std::vector<float>& values) {
  for (const float value : values) {
    EXPECT_FALSE(std::isnan(value));  // The bits of a NaN are not part of a result.
    digest = (digest ^ std::bit_cast<uint32_t>(value)) * 0x100000001b3;
  }
  return digest;
}

uint64_t DigestOf(const ForwardTrace& trace) {
  return AddToDigest(AddToDigest(AddToDigest(0xcbf29ce484222325, trace.k), trace.v), trace.logits);
}

uint64_t DigestOfTinyModel(DType dtype, ActivationMode activations, const KernelTable& kernels) {
  const TinyModelSpec spec = {.num_layers = 1, .width = 256, .ffn_width = 256, .head_dim = 64, .dtype = dtype};
  LoadedTinyModel tiny = LoadTinyModel(spec, kernels, /*num_threads=*/1, activations);
  const std::vector<TokenId> tokens = RandomTokens(11, spec.vocab_size, 1);
  return DigestOf(RunForward(*tiny.model, kernels, {tokens}, {.chunk = 8, .kv_type = KvType::kF16}).traces[0]);
}

class TinyModelGoldenTest : public testing::TestWithParam<Golden> {};

TEST_P(TinyModelGoldenTest, KeysValuesAndLogitsAreTheGoldenBitsOnEveryTarget) {
  const auto [dtype, with_int8, with_f32] = GetParam();
  for (const KernelTable* target : RunnableTargets()) {
    const uint64_t int8_digest = DigestOfTinyModel(dtype, ActivationMode::kInt8, *target);
    const uint64_t f32_digest = DigestOfTinyModel(dtype, ActivationMode::kF32, *target);

    EXPECT_EQ(int8_digest, with_int8) << target->name << ", int8: 0x" << std::hex << int8_digest;
    EXPECT_EQ(f32_digest, with_f32) << target->name << ", f32: 0x" << std::hex << f32_digest;
  }
}

TEST(TinyGemma3GoldenTest, KeysValuesAndLogitsAreTheGoldenBitsOnEveryTarget) {
  const TinyModelSpec spec = {.architecture = "gemma3", .num_kv_heads = 1, .head_dim = 64, .window = 16};
  const std::vector<TokenId> tokens = RandomTokens(41, spec.vocab_size, 1);
  for (const KernelTable* target : RunnableTargets()) {
    LoadedTinyModel tiny = LoadTinyModel(spec, *target, /*num_threads=*/1);
    const uint64_t digest =
        DigestOf(RunForward(*tiny.model, *target, {tokens}, {.chunk = 8, .kv_type = KvType::kF16}).traces[0]);
    EXPECT_EQ(digest, 0x63374a5fb23db849) << target->name << ": 0x" << std::hex << digest;
  }
}

INSTANTIATE_TEST_SUITE_P(Types, TinyModelGoldenTest, testing::ValuesIn(kGolden),
                         [](const auto& param_info) { return std::string(GetDTypeInfo(param_info.param.dtype).name); });

}  // namespace
}  // namespace kvern
