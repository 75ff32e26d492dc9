// The bytes that codecs of K and V write, on every target: they may be stored and read by another machine, so they
// change only with the numerics version (docs/numerics.md).
#include <gtest/gtest.h>

#include <cstdint>
#include <ostream>
#include <string>
#include <vector>

#include "kernels/dispatch.h"
#include "kvcache/block_layout.h"
#include "kvcache/codecs/codec_registry.h"

namespace kvern {
namespace {

struct Golden {
  KvType type;
  uint64_t digest;
};
void PrintTo(const Golden& golden, std::ostream* out) { *out << KvTypeName(golden.type); }

constexpr Golden kGolden[] = {
    {KvType::kF32, 0x4c730d4dc896fb14},    {KvType::kF16, 0x6f3a3fcd59deade7},    {KvType::kBF16, 0x6ffd439b568a2157},
    {KvType::kF8E4M3, 0xb8b77de2c5b9d89f}, {KvType::kF8E5M2, 0xf5b6e3697947f3a6}, {KvType::kI8, 0x5f3b78e535328235},
    {KvType::kI4, 0xe194ebc580f0d65c},     {KvType::kI4Head, 0x162b3082090003e0},
};

// Small multiples of powers of two, of all sizes that a model may have: nothing but integer arithmetic made them.
std::vector<float> Row(uint32_t n, uint32_t* state) {
  std::vector<float> row(n);
  for (float& x : row) {
    *state = *state * 1664525u + 1013904223u;
    const auto mantissa = static_cast<int32_t>(*state >> 16) - (1 << 15);
    x = static_cast<float>(mantissa) / static_cast<float>(1 << (8 + *state % 8));
  }
  return row;
}

// FNV-1a.
uint64_t DigestOfBlock(KvType type, const KernelTable& kernels) {
  constexpr uint32_t kHeadDim = 64, kHeads = 2, kSlots = 32;
  const BlockLayout layout = BlockLayout::Create({1, kHeads, kHeadDim}, kSlots, type, type).value();
  std::vector<uint8_t> block(layout.block_bytes());
  uint32_t state = 1;
  for (uint32_t slot = 0; slot < kSlots; ++slot) {
    const std::vector<float> k = Row(kHeads * kHeadDim, &state), v = Row(kHeads * kHeadDim, &state);
    kernels.store_kv(layout.View(block.data()), 0, 0, slot, k.data(), v.data());
  }
  uint64_t digest = 0xcbf29ce484222325;
  for (const uint8_t byte : block) digest = (digest ^ byte) * 0x100000001b3;
  return digest;
}

class KvCodecsGoldenTest : public testing::TestWithParam<Golden> {};

TEST_P(KvCodecsGoldenTest, BytesAreTheGoldenOnesOnEveryTarget) {
  for (const KernelTable* target : RunnableTargets()) {
    const uint64_t digest = DigestOfBlock(GetParam().type, *target);

    EXPECT_EQ(digest, GetParam().digest) << target->name << ": 0x" << std::hex << digest;
  }
}

TEST(KvCodecsGoldenTableTest, EveryCodecHasOne) { EXPECT_EQ(std::size(kGolden), AllCodecs().size()); }

INSTANTIATE_TEST_SUITE_P(Codecs, KvCodecsGoldenTest, testing::ValuesIn(kGolden),
                         [](const auto& param_info) { return std::string(KvTypeName(param_info.param.type)); });

}  // namespace
}  // namespace kvern
