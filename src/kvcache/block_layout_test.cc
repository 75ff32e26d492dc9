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
