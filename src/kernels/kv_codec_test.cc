// The codec f16 of K and V on every target against the plain conversions of tensor/half.h, for all inputs that matter.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "kernels/dispatch.h"
#include "tensor/half.h"

namespace kvern {
namespace {

constexpr uint32_t kNumCodes = 1 << 16;
constexpr uint32_t kDim = 1024;

class KvCodecTest : public testing::TestWithParam<const KernelTable*> {
 protected:
  // One block of one layer and one head.
  KvCodecTest() : block_(2 * kGranuleSlots * kDim), k_(kDim), v_(kDim) {
    view_ = {.base = reinterpret_cast<uint8_t*>(block_.data()),
             .block_size = kGranuleSlots,
             .num_kv_heads = 1,
             .head_dim = kDim};
    view_.LayOutHeads();
  }

  // Stores a row of values as K and as V and loads both into k_ and v_.
  void Pass(const float* row, uint32_t slot) {
    GetParam()->store_kv(view_, 0, 0, slot, row, row);
    GetParam()->load_kv(view_, 0, 0, slot, k_.data(), v_.data());
  }

  std::vector<uint16_t> block_;
  KvView view_;
  std::vector<float> k_, v_;
};

bool SameBits(float a, float b) {
  return (std::isnan(a) && std::isnan(b)) || std::bit_cast<uint32_t>(a) == std::bit_cast<uint32_t>(b);
}

INSTANTIATE_TEST_SUITE_P(Targets, KvCodecTest, testing::ValuesIn(RunnableTargets().begin(), RunnableTargets().end()),
                         [](const auto& param_info) {
                           std::string name = param_info.param->name;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

TEST_P(KvCodecTest, EveryF16DecodesLikeThePlainConversion) {
  uint16_t* const stored_v = reinterpret_cast<uint16_t*>(view_.HeadV(0, 0, 0));
  for (uint32_t first = 0; first < kNumCodes; first += kDim) {
    for (uint32_t i = 0; i < kDim; ++i) stored_v[i] = static_cast<uint16_t>(first + i);

    GetParam()->load_kv(view_, 0, 0, 0, k_.data(), v_.data());

    for (uint32_t i = 0; i < kDim; ++i) {
      ASSERT_TRUE(SameBits(v_[i], F16ToF32(static_cast<uint16_t>(first + i)))) << "code " << first + i;
    }
  }
}

TEST_P(KvCodecTest, EveryF16AndTheMiddleToItsNeighbourEncodeLikeThePlainConversion) {
  const float infinity = std::numeric_limits<float>::infinity();
  std::vector<float> values;
  for (uint32_t code = 0; code < kNumCodes; ++code) {
    const float x = F16ToF32(static_cast<uint16_t>(code));
    const float middle = (x + F16ToF32(static_cast<uint16_t>(code + 1))) / 2;
    values.insert(values.end(), {x, middle, std::nextafter(middle, 0.0f), std::nextafter(middle, infinity)});
  }

  for (uint32_t begin = 0; begin < values.size(); begin += kDim) {
    Pass(values.data() + begin, begin / kDim % kGranuleSlots);

    for (uint32_t i = 0; i < kDim; ++i) {
      const float expected = F16ToF32(F32ToF16(values[begin + i]));
      ASSERT_TRUE(SameBits(k_[i], expected)) << "K of " << values[begin + i];
      ASSERT_TRUE(SameBits(v_[i], expected)) << "V of " << values[begin + i];
    }
  }
}

TEST_P(KvCodecTest, WhatNoF16CanHoldEncodesLikeThePlainConversion) {
  std::vector<float> values = {0x1p-25f, 0x1.000002p-25f, 0x1p-26f, 1e-45f, 65519.0f, 65520.0f, 1e38f};
  for (const float v : std::vector<float>(values)) values.push_back(-v);
  values.resize(kDim);

  Pass(values.data(), 0);

  for (uint32_t i = 0; i < kDim; ++i) {
    ASSERT_TRUE(SameBits(k_[i], F16ToF32(F32ToF16(values[i])))) << "K of " << values[i];
    ASSERT_TRUE(SameBits(v_[i], F16ToF32(F32ToF16(values[i])))) << "V of " << values[i];
  }
}

}  // namespace
}  // namespace kvern
