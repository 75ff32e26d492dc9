// What every codec of K and V rows must do, on every target. A new codec is one line in kBounds.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <ostream>
#include <random>
#include <string>
#include <vector>

#include "base/thread_pool.h"
#include "kernels/attention.h"
#include "kernels/dispatch.h"
#include "kvcache/block_layout.h"
#include "kvcache/codecs/codec_registry.h"

namespace kvern {
namespace {

// Largest |x - decoded x| of a row as a share of the row's largest magnitude.
struct CodecBound {
  KvType type;
  float error;
  float key_error = error;  // Of keys, where that is more.
};
constexpr CodecBound kBounds[] = {
    {KvType::kF32, 0},          {KvType::kF16, 0x1p-11f},          {KvType::kBF16, 0x1p-8f}, {KvType::kF8E4M3, 0x1p-4f},
    {KvType::kF8E5M2, 0x1p-3f}, {KvType::kI8, 0.51f / 127, 0.02f},  // Half a step; the f16 of the scale adds to it.
    {KvType::kI4, 0.40f},  // Half a step of each rotated value at worst, but they add up over the head.
    {KvType::kI4Head, 0.40f},
};

class CodecConformanceTest : public testing::TestWithParam<std::tuple<const KernelTable*, CodecBound>> {
 protected:
  const KernelTable& kernels() const { return *std::get<0>(GetParam()); }
  const CodecBound& bound() const { return std::get<1>(GetParam()); }
  KvType type() const { return bound().type; }
};

std::string NameOf(const testing::TestParamInfo<std::tuple<const KernelTable*, CodecBound>>& info) {
  std::string name = std::get<0>(info.param)->name;
  name += "_" + std::string(KvTypeName(std::get<1>(info.param).type));
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(Codecs, CodecConformanceTest,
                         testing::Combine(testing::ValuesIn(RunnableTargets().begin(), RunnableTargets().end()),
                                          testing::ValuesIn(kBounds)),
                         NameOf);

TEST(CodecRegistryConformanceTest, EveryRegisteredCodecIsTested) {
  ASSERT_EQ(std::size(kBounds), AllCodecs().size());
  for (size_t i = 0; i < std::size(kBounds); ++i) EXPECT_EQ(kBounds[i].type, AllCodecs()[i].type);
}

const KernelTable& Generic() { return *RunnableTargets().front(); }

bool SameBits(float a, float b) {
  return (std::isnan(a) && std::isnan(b)) || std::bit_cast<uint32_t>(a) == std::bit_cast<uint32_t>(b);
}

// One block of one layer and one KV head, K and V by the same codec.
class OneBlock {
 public:
  static constexpr uint32_t kSlots = 32;

  OneBlock(KvType type, uint32_t head_dim, uint8_t fill = 0)
      : layout_(BlockLayout::Create({1, 1, head_dim}, kSlots, type, type).value()),
        memory_(layout_.block_bytes(), fill),
        view_(layout_.View(memory_.data())) {}

  const KvView& view() const { return view_; }
  std::vector<uint8_t>& bytes() { return memory_; }

  uint32_t Store(const KernelTable& kernels, uint32_t slot, const std::vector<float>& row) {
    return kernels.store_kv(view_, 0, 0, slot, row.data(), row.data());
  }
  // K, then V.
  std::pair<std::vector<float>, std::vector<float>> Load(const KernelTable& kernels, uint32_t slot) const {
    std::vector<float> k(view_.head_dim), v(view_.head_dim);
    kernels.load_kv(view_, 0, 0, slot, k.data(), v.data());
    return {k, v};
  }

 private:
  BlockLayout layout_;
  std::vector<uint8_t> memory_;
  KvView view_;
};

std::vector<float> RandomRow(uint32_t n, float size, uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> row(n);
  for (float& x : row) x = size * normal(random);
  return row;
}

float LargestMagnitude(const std::vector<float>& row) {
  float largest = 0;
  for (const float x : row) largest = std::fmax(largest, std::fabs(x));
  return largest;
}

std::vector<uint32_t> HeadDims(KvType type) {
  std::vector<uint32_t> dims;
  for (const uint32_t dim : {16u, 32u, 64u, 80u, 96u, 128u, 256u}) {
    if (CheckHeadDim(type, dim).ok()) dims.push_back(dim);
  }
  return dims;
}

TEST_P(CodecConformanceTest, RowsComeBackWithinTheBoundOfTheCodec) {
  for (const uint32_t dim : HeadDims(type())) {
    OneBlock block(type(), dim);
    for (const float size : {1e-3f, 1.0f, 300.0f}) {
      for (uint32_t slot = 0; slot < OneBlock::kSlots; ++slot) {
        const std::vector<float> row = RandomRow(dim, size, slot);

        EXPECT_EQ(block.Store(kernels(), slot, row), 0u);

        const auto [k, v] = block.Load(kernels(), slot);
        const float largest = LargestMagnitude(row), rest = bound().error > 0 ? 0x1p-24f : 0;
        for (uint32_t d = 0; d < dim; ++d) {
          const std::string where = "head size " + std::to_string(dim) + ", dim " + std::to_string(d);
          ASSERT_LE(std::fabs(k[d] - row[d]), bound().key_error * largest + rest) << "K, " << where;
          ASSERT_LE(std::fabs(v[d] - row[d]), bound().error * largest + rest) << "V, " << where;
        }
      }
    }
  }
}

// Codes are those of the key less its centre, and decoding gives the key back.
TEST_P(CodecConformanceTest, KeysAreStoredWithoutTheirCentre) {
  for (const uint32_t dim : HeadDims(type())) {
    const std::vector<float> key = RandomRow(dim, 1.0f, 1), centre = RandomRow(dim, 3.0f, 2);
    std::vector<float> difference(dim);
    for (uint32_t d = 0; d < dim; ++d) difference[d] = key[d] - centre[d];
    OneBlock centred(type(), dim), plain(type(), dim);
    KvView view = centred.view();
    view.key_centres = centre.data();

    kernels().store_kv(view, 0, 0, 5, key.data(), difference.data());
    plain.Store(kernels(), 5, difference);
    std::vector<float> k(dim), v(dim);
    kernels().load_kv(view, 0, 0, 5, k.data(), v.data());

    EXPECT_EQ(centred.bytes(), plain.bytes()) << "head size " << dim;
    const std::vector<float> decoded = plain.Load(kernels(), 5).first;
    for (uint32_t d = 0; d < dim; ++d) EXPECT_EQ(k[d], decoded[d] + centre[d]) << "head size " << dim;
  }
}

TEST_P(CodecConformanceTest, RowsOfOtherSlotsKeepTheirBits) {
  const uint32_t dim = HeadDims(type()).back();
  OneBlock block(type(), dim);
  for (uint32_t slot = 0; slot < OneBlock::kSlots; ++slot) block.Store(kernels(), slot, RandomRow(dim, 1, slot));
  const auto before = block.Load(kernels(), 9);

  for (uint32_t slot = 0; slot < OneBlock::kSlots; ++slot) {
    if (slot != 9) block.Store(kernels(), slot, RandomRow(dim, 3, 100 + slot));
  }

  EXPECT_EQ(block.Load(kernels(), 9), before);
}

TEST_P(CodecConformanceTest, BytesAreThoseOfGeneric) {
  const float infinity = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  for (const uint32_t dim : HeadDims(type())) {
    OneBlock expected(type(), dim), actual(type(), dim);
    for (uint32_t slot = 0; slot < OneBlock::kSlots; ++slot) {
      constexpr float kSizes[] = {1, 1e-3f, 1e-6f, 1e-12f, 1e-38f, 1e4f, 1e9f, 1e38f};
      std::vector<float> row = RandomRow(dim, kSizes[slot % std::size(kSizes)], slot);
      if (slot == 8) std::fill(row.begin(), row.end(), 0.0f);
      if (slot == 9) std::fill(row.begin(), row.end(), -0.0f);
      if (slot == 10) row[3] = infinity;
      if (slot == 11) row[dim - 1] = nan;
      if (slot == 12) std::fill(row.begin(), row.end(), -2.0f);
      if (slot == 13) row[7] = 1000;
      if (slot == 14) {
        for (uint32_t d = 0; d < dim; ++d) row[d] = static_cast<float>(d % 16) * 0.5f;  // Ties.
      }

      EXPECT_EQ(actual.Store(kernels(), slot, row), expected.Store(Generic(), slot, row)) << "slot " << slot;
    }
    ASSERT_EQ(actual.bytes(), expected.bytes()) << "head size " << dim;
  }
}

TEST_P(CodecConformanceTest, RowsOfZerosComeBackAsZeros) {
  const uint32_t dim = HeadDims(type()).back();
  OneBlock block(type(), dim, 0xff);

  EXPECT_EQ(block.Store(kernels(), 5, std::vector<float>(dim, 0.0f)), 0u);

  const auto [k, v] = block.Load(kernels(), 5);
  EXPECT_EQ(k, std::vector<float>(dim, 0.0f));
  EXPECT_EQ(v, std::vector<float>(dim, 0.0f));
}

// Codecs with a scale lose the whole row: what is not finite must stay visible, wherever it is looked for.
TEST_P(CodecConformanceTest, WhatIsNotFiniteStaysVisibleAndIsCounted) {
  const uint32_t dim = HeadDims(type()).back();
  for (const float bad : {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
    OneBlock block(type(), dim);
    std::vector<float> row = RandomRow(dim, 1, 1);
    row[dim / 2] = bad;

    const uint32_t num_lost = block.Store(kernels(), 0, row);

    const auto [k, v] = block.Load(kernels(), 0);
    EXPECT_FALSE(std::isfinite(k[dim / 2]));
    EXPECT_FALSE(std::isfinite(v[dim / 2]));
    const bool has_scale = BitsPerValue(type(), dim) != std::floor(BitsPerValue(type(), dim));
    EXPECT_EQ(num_lost, 2 * (has_scale ? dim : 1));
    if (has_scale) {
      EXPECT_TRUE(std::isnan(k[0]) && std::isnan(v[0]));
    }
  }
}

TEST_P(CodecConformanceTest, ValuesBeyondTheRangeAreCounted) {
  if (type() == KvType::kF32) return;  // Holds all that is finite.
  const uint32_t dim = HeadDims(type()).back();
  OneBlock block(type(), dim);
  std::vector<float> row(dim, 1.0f);
  row[3] = std::numeric_limits<float>::max();

  EXPECT_GE(block.Store(kernels(), 0, row), 2u);  // K and V; a rotation spreads it over the row.
}

// Attention and load_kv over bytes that no encoder wrote: nothing traps, and all ways to compute agree.
TEST_P(CodecConformanceTest, RandomBytesGiveTheBitsOfGenericInEveryCut) {
  const uint32_t dim = CheckHeadDim(type(), 80).ok() ? 80 : 64;
  constexpr uint32_t kTokens = 2 * OneBlock::kSlots - 3, kRows = 20, kGroup = 3;
  const BlockLayout layout = BlockLayout::Create({1, 1, dim}, OneBlock::kSlots, type(), type()).value();
  for (uint32_t seed = 0; seed < 4; ++seed) {
    std::vector<uint8_t> memory(2 * layout.block_bytes());
    std::mt19937 random(seed);
    for (uint8_t& byte : memory) byte = static_cast<uint8_t>(random());
    const KvView view = layout.View(memory.data());
    const std::vector<float> q = RandomRow(kRows * kGroup * dim, 1, seed);
    const BlockIndex blocks[] = {1, 0};
    const auto attend = [&](const KernelTable& target, uint32_t chunk) {
      std::vector<float> out(q.size());
      AttentionPlan plan;
      ThreadPool pool(1);
      for (uint32_t row = 0; row < kRows; row += chunk) {
        const SequenceRows rows{
            row, std::min(chunk, kRows - row), kTokens - kRows + row, {std::span<const BlockIndex>(blocks)}};
        EXPECT_TRUE(plan.Build(target, {&rows, 1}, {}, {kGroup, 1, dim}, 1, HeapAllocator()).ok());
        pool.Run([&](Worker& worker) {
          plan.Run({q.data(), kGroup * dim, out.data(), kGroup * dim, view, 0, kGroup, 0.1f}, worker);
        });
      }
      return out;
    };
    const std::vector<float> expected = attend(Generic(), kRows);
    for (const uint32_t chunk : {1u, 5u, kRows}) {
      const std::vector<float> out = attend(kernels(), chunk);
      for (size_t i = 0; i < out.size(); ++i) ASSERT_TRUE(SameBits(out[i], expected[i])) << "chunk " << chunk;
    }
    std::vector<float> k(dim), v(dim), expected_k(dim), expected_v(dim);
    for (uint32_t slot = 0; slot < OneBlock::kSlots; ++slot) {
      kernels().load_kv(view, 0, 1, slot, k.data(), v.data());
      Generic().load_kv(view, 0, 1, slot, expected_k.data(), expected_v.data());
      for (uint32_t d = 0; d < dim; ++d) {
        ASSERT_TRUE(SameBits(k[d], expected_k[d]) && SameBits(v[d], expected_v[d])) << "slot " << slot << ", dim " << d;
      }
    }
  }
}

// Scales of V count by their magnitude; encoders never write a negative one.
TEST_P(CodecConformanceTest, ScalesOfValuesAreNeverNegative) {
  const uint32_t dim = HeadDims(type()).back(), num_scales = NumKvScales(type(), dim);
  OneBlock block(type(), dim);
  for (uint32_t slot = 0; slot < OneBlock::kSlots; ++slot) block.Store(kernels(), slot, RandomRow(dim, 1, slot));

  const uint8_t* const scales = block.view().HeadScales(0, 0, 0);
  for (uint32_t granule = 0; granule < OneBlock::kSlots / kGranuleSlots; ++granule) {
    for (uint32_t i = 0; i < 2 * num_scales * kGranuleSlots; ++i) {
      const uint8_t* const scale = scales + granule * KvGranuleScaleBytes(type(), type(), dim) + 2 * i;
      EXPECT_EQ(scale[1] & 0x80, 0) << "scale " << i;
    }
  }
}

}  // namespace
}  // namespace kvern
