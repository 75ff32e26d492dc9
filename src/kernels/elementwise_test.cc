#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "kernels/dispatch.h"
#include "kernels/kernel_table.h"

namespace kvern {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
constexpr uint32_t kSizes[] = {1, 2, 15, 16, 17, 31, 32, 33, 100, 576, 577};

const KernelTable& Generic() { return *RunnableTargets().front(); }

std::vector<float> RandomRow(uint32_t n, uint32_t seed, float size = 1) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0, size);
  std::vector<float> row(n);
  for (float& x : row) x = normal(random);
  return row;
}

// All bits equal; any NaN equals any NaN.
bool SameBits(const std::vector<float>& a, const std::vector<float>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](float x, float y) {
    return std::memcmp(&x, &y, sizeof(float)) == 0 || (std::isnan(x) && std::isnan(y));
  });
}

class ElementwiseTest : public testing::TestWithParam<const KernelTable*> {
 protected:
  const KernelTable& kernels() const { return *GetParam(); }
};

std::string TargetName(const testing::TestParamInfo<const KernelTable*>& target) {
  std::string name = target.param->name;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(Targets, ElementwiseTest,
                         testing::ValuesIn(RunnableTargets().begin(), RunnableTargets().end()), TargetName);

// n / 16 additions per lane and a handful of roundings after them: far below 1e-6 relative.
TEST_P(ElementwiseTest, RmsNormIsTheFormula) {
  for (const uint32_t n : kSizes) {
    const std::vector<float> x = RandomRow(n, n), weight = RandomRow(n, n + 1);
    std::vector<float> out(n);

    kernels().rms_norm(x.data(), weight.data(), n, 1e-5f, out.data());

    double sum = 0;
    for (const float v : x) sum += double{v} * v;
    for (uint32_t i = 0; i < n; ++i) {
      const double expected = x[i] / std::sqrt(sum / n + 1e-5) * weight[i];
      EXPECT_NEAR(out[i], expected, 1e-6 * std::fabs(expected)) << "n " << n << ", i " << i;
    }
  }
}

TEST_P(ElementwiseTest, RmsNormEqualsGenericAlsoInPlace) {
  for (const uint32_t n : kSizes) {
    const std::vector<float> x = RandomRow(n, n, 30), weight = RandomRow(n, n + 1);
    std::vector<float> expected(n), in_place = x;
    Generic().rms_norm(x.data(), weight.data(), n, 1e-5f, expected.data());

    kernels().rms_norm(in_place.data(), weight.data(), n, 1e-5f, in_place.data());

    EXPECT_TRUE(SameBits(in_place, expected)) << "n " << n;
  }
}

TEST_P(ElementwiseTest, RmsNormOfANanIsNan) {
  std::vector<float> x = RandomRow(100, 1), weight(100, 1.0f);
  x[98] = kNaN;

  kernels().rms_norm(x.data(), weight.data(), 100, 1e-5f, x.data());

  EXPECT_TRUE(std::all_of(x.begin(), x.end(), [](float v) { return std::isnan(v); }));
}

// The exponential is within 2 ulp and its argument is rounded once: |x| * 2^-24 relative.
TEST_P(ElementwiseTest, SwigluIsTheFormula) {
  for (const uint32_t n : kSizes) {
    const std::vector<float> gate = RandomRow(n, n, 5), up = RandomRow(n, n + 1);
    std::vector<float> out(n);

    kernels().swiglu(gate.data(), up.data(), n, out.data());

    for (uint32_t i = 0; i < n; ++i) {
      const double expected = gate[i] / (1 + std::exp(-double{gate[i]})) * up[i];
      EXPECT_NEAR(out[i], expected, 2e-6 * std::fabs(expected) + 1e-30) << "n " << n << ", i " << i;
    }
  }
}

TEST_P(ElementwiseTest, SwigluEqualsGenericAlsoInPlaceAndAtTheEnds) {
  for (const uint32_t n : kSizes) {
    std::vector<float> gate = RandomRow(n, n, 40), up = RandomRow(n, n + 1);
    const float ends[] = {0.0f, -0.0f, 1e30f, -1e30f, kInfinity, -kInfinity, kNaN, 1e-40f, -87.4f, -100.0f};
    for (uint32_t i = 0; i < std::min<uint32_t>(n, std::size(ends)); ++i) gate[i] = ends[i];
    std::vector<float> expected(n), in_place = gate;
    Generic().swiglu(gate.data(), up.data(), n, expected.data());

    kernels().swiglu(in_place.data(), up.data(), n, in_place.data());

    EXPECT_TRUE(SameBits(in_place, expected)) << "n " << n;
  }
}

TEST_P(ElementwiseTest, SwigluPassesNanOnAndNeverOverflows) {
  const std::vector<float> gate = {kNaN, 1.0f, -1e38f, 1e38f}, up = {1.0f, kNaN, 1.0f, 1.0f};
  std::vector<float> out(4);

  kernels().swiglu(gate.data(), up.data(), 4, out.data());

  EXPECT_TRUE(std::isnan(out[0]));
  EXPECT_TRUE(std::isnan(out[1]));
  EXPECT_TRUE(std::isfinite(out[2]));
  EXPECT_EQ(out[3], 1e38f);
}

// As for swiglu, with two roundings more in the argument of the exponential, which is below 126.
TEST_P(ElementwiseTest, GegluIsTheFormula) {
  for (const uint32_t n : kSizes) {
    const std::vector<float> gate = RandomRow(n, n, 3), up = RandomRow(n, n + 1);
    std::vector<float> out(n);

    kernels().geglu(gate.data(), up.data(), n, out.data());

    for (uint32_t i = 0; i < n; ++i) {
      const double x = gate[i], u = 0.7978845608028654 * (x + 0.044715 * x * x * x);
      const double expected = x / (1 + std::exp(-2 * u)) * up[i];
      EXPECT_NEAR(out[i], expected, 3e-5 * std::fabs(expected) + 1e-30) << "n " << n << ", gate " << x;
      EXPECT_NEAR(out[i], 0.5 * x * (1 + std::tanh(u)) * up[i], 1e-6 * std::fabs(x * up[i])) << "gate " << x;
    }
  }
}

TEST_P(ElementwiseTest, GegluEqualsGenericAlsoInPlaceAndAtTheEnds) {
  for (const uint32_t n : kSizes) {
    std::vector<float> gate = RandomRow(n, n, 4), up = RandomRow(n, n + 1);
    const float ends[] = {0.0f, -0.0f, 1e30f, -1e30f, kInfinity, -kInfinity, kNaN, 1e-40f, -10.2f, -10.3f};
    for (uint32_t i = 0; i < std::min<uint32_t>(n, std::size(ends)); ++i) gate[i] = ends[i];
    std::vector<float> expected(n), in_place = gate;
    Generic().geglu(gate.data(), up.data(), n, expected.data());

    kernels().geglu(in_place.data(), up.data(), n, in_place.data());

    EXPECT_TRUE(SameBits(in_place, expected)) << "n " << n;
  }
}

TEST_P(ElementwiseTest, GegluPassesNanOnAndNeverOverflows) {
  const std::vector<float> gate = {kNaN, 1.0f, -1e37f, 1e38f, -12.0f}, up = {1.0f, kNaN, 1.0f, 1.0f, 1.0f};
  std::vector<float> out(5);

  kernels().geglu(gate.data(), up.data(), 5, out.data());

  EXPECT_TRUE(std::isnan(out[0]));
  EXPECT_TRUE(std::isnan(out[1]));
  EXPECT_TRUE(std::isfinite(out[2]));
  EXPECT_EQ(out[3], 1e38f);
  EXPECT_NEAR(out[4], 0, 1e-30);
}

TEST_P(ElementwiseTest, RopeRotatesPairsAndLeavesTheRest) {
  for (const uint32_t rope_dim : {2u, 30u, 32u, 34u, 64u, 80u}) {
    constexpr uint32_t kHeadDim = 80, kHeads = 3;
    const std::vector<float> x = RandomRow(kHeads * kHeadDim, rope_dim);
    std::vector<float> cos(rope_dim / 2), sin(rope_dim / 2), out = x, expected = x;
    for (uint32_t i = 0; i < rope_dim / 2; ++i) {
      cos[i] = static_cast<float>(std::cos(1.0 + i));
      sin[i] = static_cast<float>(std::sin(1.0 + i));
    }
    Generic().rope_pairs(expected.data(), kHeads, kHeadDim, rope_dim, cos.data(), sin.data());

    kernels().rope_pairs(out.data(), kHeads, kHeadDim, rope_dim, cos.data(), sin.data());

    EXPECT_TRUE(SameBits(out, expected)) << "rope_dim " << rope_dim;
    for (uint32_t head = 0; head < kHeads; ++head) {
      const float* const before = x.data() + head * kHeadDim;
      const float* const after = out.data() + head * kHeadDim;
      for (uint32_t i = 0; i < rope_dim / 2; ++i) {
        const double x0 = before[2 * i], x1 = before[2 * i + 1];
        EXPECT_NEAR(after[2 * i], x0 * cos[i] - x1 * sin[i], 1e-6);
        EXPECT_NEAR(after[2 * i + 1], x0 * sin[i] + x1 * cos[i], 1e-6);
      }
      for (uint32_t i = rope_dim; i < kHeadDim; ++i) EXPECT_EQ(after[i], before[i]);
    }
  }
}

TEST_P(ElementwiseTest, ArgmaxTakesTheFirstOfEqualsAndNeverNan) {
  for (const uint32_t n : {1u, 15u, 16u, 17u, 511u, 512u, 513u, 2000u}) {
    std::vector<float> x = RandomRow(n, n);
    x[n / 2] = 100;
    x[n - 1] = 100;
    if (n > 2) x[0] = kNaN;

    EXPECT_EQ(kernels().argmax(x.data(), n), n / 2) << "n " << n;
  }
}

TEST_P(ElementwiseTest, ArgmaxOfRowsWithoutANumber) {
  std::vector<float> x(1000, kNaN);
  EXPECT_EQ(kernels().argmax(x.data(), 1000), 0u);

  x[700] = -kInfinity;
  EXPECT_EQ(kernels().argmax(x.data(), 1000), 700u);

  x[600] = -0.0f;
  x[650] = 0.0f;
  EXPECT_EQ(kernels().argmax(x.data(), 1000), 600u);
}

TEST_P(ElementwiseTest, ExpShiftedIsTheFormulaAndItsSum) {
  for (const uint32_t n : kSizes) {
    const std::vector<float> x = RandomRow(n, n, 8);
    std::vector<float> p(n), expected(n);
    const float expected_sum = Generic().exp_shifted(x.data(), n, 0.7f, expected.data());

    const float sum = kernels().exp_shifted(x.data(), n, 0.7f, p.data());

    EXPECT_TRUE(SameBits(p, expected)) << "n " << n;
    EXPECT_EQ(sum, expected_sum) << "n " << n;
    const double max = *std::max_element(x.begin(), x.end());
    double exact_sum = 0;
    for (uint32_t i = 0; i < n; ++i) {
      const double exact = std::exp(double{0.7f} * (x[i] - max));
      EXPECT_NEAR(p[i], exact, 3e-6 * exact) << "n " << n << ", i " << i;
      exact_sum += exact;
    }
    EXPECT_NEAR(sum, exact_sum, 3e-6 * exact_sum) << "n " << n;
  }
}

TEST_P(ElementwiseTest, ExpShiftedIsOneAtTheMaximumAndZeroFarBelow) {
  std::vector<float> x = {-kInfinity, 3.0f, -200.0f, 3.0f};

  const float sum = kernels().exp_shifted(x.data(), 4, 1.0f, x.data());

  EXPECT_EQ(x, (std::vector<float>{0.0f, 1.0f, 0.0f, 1.0f}));
  EXPECT_EQ(sum, 2.0f);
}

TEST_P(ElementwiseTest, ExpShiftedPassesNanOn) {
  std::vector<float> x = RandomRow(50, 1);
  x[7] = std::bit_cast<float>(0x7fc00001u);  // Its payload must not be mistaken for an exponent.

  const float sum = kernels().exp_shifted(x.data(), 50, 1.0f, x.data());

  EXPECT_TRUE(std::isnan(x[7]));
  EXPECT_TRUE(std::isnan(sum));
}

}  // namespace
}  // namespace kvern
