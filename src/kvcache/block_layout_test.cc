#include "kvcache/block_layout.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

namespace kvern {
namespace {

using ::testing::HasSubstr;

TEST(BlockLayoutTest, BytesAreThoseOfAllLayersHeadsAndSlots) {
  // SmolLM2-135M: 30 layers, 3 KV heads of 64.
  const KvShape shape{.num_layers = 30, .num_kv_heads = 3, .head_dim = 64};

  const auto f16 = BlockLayout::Create(shape, 64, KvType::kF16, KvType::kF16);
  const auto f32 = BlockLayout::Create(shape, 64, KvType::kF32, KvType::kF32);
  const auto mixed = BlockLayout::Create(shape, 16, KvType::kF32, KvType::kF16);

  ASSERT_TRUE(f16.ok() && f32.ok() && mixed.ok());
  EXPECT_EQ(f16->bytes_per_token(), 30u * 3 * 64 * 2 * 2);
  EXPECT_EQ(f16->block_bytes(), 64u * 23040);
  EXPECT_EQ(f32->block_bytes(), 64u * 46080);
  EXPECT_EQ(mixed->block_bytes(), 16u * 30 * 3 * 64 * (4 + 2));
}

TEST(BlockLayoutTest, BytesOfCodecsAreTheirCodesAndScalesExactly) {
  const auto bits_per_value = [](uint32_t head_dim, KvType k_type, KvType v_type) {
    const auto layout = BlockLayout::Create({30, 3, head_dim}, 64, k_type, v_type);
    EXPECT_TRUE(layout.ok()) << layout.status().ToString();
    return 8.0 * static_cast<double>(layout->block_bytes()) / (64.0 * 30 * 3 * head_dim * 2);
  };

  EXPECT_EQ(bits_per_value(64, KvType::kBF16, KvType::kBF16), 16);
  EXPECT_EQ(bits_per_value(64, KvType::kF8E4M3, KvType::kF8E4M3), 8.25);
  EXPECT_EQ(bits_per_value(64, KvType::kF8E5M2, KvType::kF8E5M2), 8.25);
  EXPECT_EQ(bits_per_value(64, KvType::kI8, KvType::kI8), 8.25);
  EXPECT_EQ(bits_per_value(64, KvType::kI4, KvType::kI4), 4.5);
  EXPECT_EQ(bits_per_value(64, KvType::kI4Head, KvType::kI4Head), 4.25);
  EXPECT_EQ(bits_per_value(64, KvType::kI8, KvType::kI4), (8 + 4) / 2.0 + 0.5);  // Three scales, of a line of four.
  EXPECT_EQ(bits_per_value(256, KvType::kI8, KvType::kI8), 8 + 16.0 / 256);
  EXPECT_EQ(bits_per_value(256, KvType::kI4, KvType::kI4), 4.5);
}

TEST(BlockLayoutTest, HeadSizesThatACodecCannotStoreAreRefusedWithTheRule) {
  for (const uint32_t head_dim : {16u, 80u, 96u}) {
    for (const KvType type : {KvType::kI4, KvType::kI4Head}) {
      const auto layout = BlockLayout::Create({2, 2, head_dim}, 64, KvType::kF16, type);

      ASSERT_FALSE(layout.ok());
      EXPECT_EQ(layout.status().code(), StatusCode::kUnsupported);
      EXPECT_THAT(layout.status().message(), HasSubstr("heads of " + std::to_string(head_dim)));
      EXPECT_THAT(layout.status().message(), HasSubstr("power of two of at least 32"));
    }
    EXPECT_TRUE(BlockLayout::Create({2, 2, head_dim}, 64, KvType::kI8, KvType::kI8).ok());
  }
  EXPECT_FALSE(BlockLayout::Create({2, 2, 2048}, 64, KvType::kI8, KvType::kF16).ok());
}

TEST(BlockLayoutTest, BlocksForRoundsUp) {
  const auto layout = BlockLayout::Create({1, 1, 16}, 16, KvType::kF16, KvType::kF16);

  ASSERT_TRUE(layout.ok());
  EXPECT_EQ(layout->BlocksFor(0), 0u);
  EXPECT_EQ(layout->BlocksFor(1), 1u);
  EXPECT_EQ(layout->BlocksFor(16), 1u);
  EXPECT_EQ(layout->BlocksFor(17), 2u);
  EXPECT_EQ(layout->BlocksFor(~uint64_t{0}), (uint64_t{1} << 60));
}

TEST(BlockLayoutTest, ViewCoversEveryByteOfABlockOnce) {
  const auto layout = BlockLayout::Create({2, 3, 16}, 32, KvType::kF32, KvType::kF16);
  ASSERT_TRUE(layout.ok());
  std::vector<uint8_t> memory(2 * layout->block_bytes());

  const KvView view = layout->View(memory.data());

  std::vector<int> touched(memory.size(), 0);
  const auto touch = [&](const uint8_t* from, size_t num_bytes) {
    for (size_t i = 0; i < num_bytes; ++i) ++touched[static_cast<size_t>(from - memory.data()) + i];
  };
  for (uint32_t block = 0; block < 2; ++block) {
    for (uint32_t layer = 0; layer < 2; ++layer) {
      for (uint32_t head = 0; head < 3; ++head) {
        touch(view.HeadK(block, layer, head), 32 * 16 * 4);
        touch(view.HeadV(block, layer, head), 32 * 16 * 2);
      }
    }
  }
  EXPECT_EQ(std::set<int>(touched.begin(), touched.end()), std::set<int>{1});
  EXPECT_EQ(view.block_size, 32u);
  EXPECT_EQ(view.k_type, KvType::kF32);
  EXPECT_EQ(view.v_type, KvType::kF16);
}

TEST(BlockLayoutTest, ViewOfCodecsWithScalesCoversEveryByteOfABlockOnce) {
  const auto layout = BlockLayout::Create({2, 3, 64}, 32, KvType::kI8, KvType::kI4);
  ASSERT_TRUE(layout.ok());
  std::vector<uint8_t> memory(layout->block_bytes());

  const KvView view = layout->View(memory.data());

  size_t end = 0;
  for (uint32_t layer = 0; layer < 2; ++layer) {
    for (uint32_t head = 0; head < 3; ++head) {
      EXPECT_EQ(view.HeadK(0, layer, head), memory.data() + end);
      EXPECT_EQ(view.HeadV(0, layer, head), memory.data() + end + 32 * 64);
      EXPECT_EQ(view.HeadScales(0, layer, head), memory.data() + end + 32 * 64 + 32 * 64 / 2);
      end += 32 * 64 + 32 * 64 / 2 + 2 * 128;
    }
  }
  EXPECT_EQ(end, memory.size());
}

TEST(BlockLayoutTest, ShapesOutsideTheLimitsAreRefusedWithTheNumber) {
  const KvShape good{2, 2, 32};

  for (const uint32_t size : {0u, 8u, 15u, 17u, 65u, 4112u}) {
    const auto layout = BlockLayout::Create(good, size, KvType::kF16, KvType::kF16);
    ASSERT_FALSE(layout.ok());
    EXPECT_EQ(layout.status().code(), StatusCode::kInvalidArgument);
    EXPECT_THAT(layout.status().message(), HasSubstr("block size is " + std::to_string(size)));
  }
  EXPECT_FALSE(BlockLayout::Create({0, 2, 32}, 16, KvType::kF16, KvType::kF16).ok());
  EXPECT_FALSE(BlockLayout::Create({2, 0, 32}, 16, KvType::kF16, KvType::kF16).ok());
  EXPECT_FALSE(BlockLayout::Create({2, 2, 24}, 16, KvType::kF16, KvType::kF16).ok());
  EXPECT_FALSE(BlockLayout::Create({2, 1u << 31, 32}, 16, KvType::kF16, KvType::kF16).ok());
  EXPECT_TRUE(BlockLayout::Create({1 << 14, 1 << 14, 1 << 14}, 4096, KvType::kF32, KvType::kF32).ok());
}

}  // namespace
}  // namespace kvern
