#include "engine/per_tensor_int8.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace kvern {
namespace {

using testing::ElementsAre;

std::vector<float> Rounded(const TensorRange& range, std::vector<float> values) {
  TensorInt8(range).Round(values);
  return values;
}

TEST(TensorRangeTest, WidensByEveryValue) {
  TensorRange range;
  range.Add(std::vector<float>{2, -1});
  range.Add(std::vector<float>{0.5f, 7});

  EXPECT_EQ(range.min, -1);
  EXPECT_EQ(range.max, 7);
}

TEST(TensorInt8Test, ValuesAreThoseOfTheNearestCode) {
  // scale = (191.25 + 63.75) / 255 = 1, zero = 64: -63.75 has code 0, which is read as -64.
  const TensorRange range = {.min = -63.75f, .max = 191.25f};

  EXPECT_THAT(Rounded(range, {0, 0.25f, -1.75f, 191.25f, -63.75f}), ElementsAre(0, 0, -2, 191, -64));
}

TEST(TensorInt8Test, TheScaleIsA255thOfTheRange) {
  // scale = 0.5, zero = 20; codes 20, 21, 120 and 255.
  const TensorRange range = {.min = -10, .max = 117.5f};

  EXPECT_THAT(Rounded(range, {0.125f, 0.375f, 50.125f, 117.5f}), ElementsAre(0, 0.5f, 50, 117.5f));
}

TEST(TensorInt8Test, WhatLiesOutsideTheRangeIsCutToIt) {
  const TensorRange range = {.min = -10, .max = 117.5f};

  EXPECT_THAT(Rounded(range, {-1000, 1000}), ElementsAre(-10, 117.5f));
}

TEST(TensorInt8Test, ARangeWithoutZeroKeepsItsEnds) {
  // zero = -200, outside the codes.
  const TensorRange range = {.min = 100, .max = 227.5f};

  EXPECT_THAT(Rounded(range, {100, 227.5f, 150.2f}), ElementsAre(100, 227.5f, 150));
}

TEST(TensorInt8Test, ATensorOfOneValueIsKeptAsItIs) {
  EXPECT_THAT(Rounded({.min = 0.1f, .max = 0.1f}, {0.1f, 0.1f}), ElementsAre(0.1f, 0.1f));
}

TEST(PerTensorInt8Test, KeysAndValuesOfEachLayerHaveARangeOfTheirOwn) {
  ModelConfig config;
  config.num_layers = 2;
  config.num_kv_heads = 1;
  config.head_dim = 2;
  PerTensorInt8 tensors(config);
  // Two rows with a stride of 3: what stands between them does not count.
  const float k[] = {0, 255, 1e9f, 100, 100, 1e9f}, v[] = {0, 510, -1e9f, 9, 9, -1e9f};
  tensors.Add({.layer = 0, .k = k, .v = v, .kv_stride = 3}, 2);
  tensors.Add({.layer = 1, .k = v, .v = k, .kv_stride = 3}, 2);
  const KvEditor editor = tensors.Editor();

  for (const uint32_t layer : {0u, 1u}) {
    float row[2][2] = {{7.25f, 300}, {7.25f, 300}};
    editor(layer, row[0], row[1]);
    EXPECT_THAT(row[layer], ElementsAre(7, 255));      // Steps of 1 up to 255.
    EXPECT_THAT(row[1 - layer], ElementsAre(8, 300));  // Steps of 2 up to 510.
  }
}

}  // namespace
}  // namespace kvern
