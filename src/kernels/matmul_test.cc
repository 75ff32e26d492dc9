// Products on every target: the same bits as `generic`, which in turn is checked against a plain implementation of the
// order of additions in docs/numerics.md and against f64.
#include <gmock/gmock.h>

#include <bit>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <tuple>

#include "kernels/dispatch.h"
#include "kernels/testing/random_weights.h"
#include "kernels/testing/run_product.h"
#include "tensor/quant_formats.h"

namespace kvern {
namespace {

constexpr DType kIntegerTypes[] = {DType::kQ4_0, DType::kQ4_1, DType::kQ5_0, DType::kQ5_1,
                                   DType::kQ8_0, DType::kQ4_K, DType::kQ5_K, DType::kQ6_K};
constexpr DType kFloatTypes[] = {DType::kF32, DType::kF16, DType::kBF16};

bool SameBits(float a, float b) {
  return (std::isnan(a) && std::isnan(b)) || std::bit_cast<uint32_t>(a) == std::bit_cast<uint32_t>(b);
}

// Expects found == expected, row by row of `width`; `expected` may have more rows.
void ExpectSameBits(const std::vector<float>& found, const std::vector<float>& expected, const std::string& what) {
  ASSERT_LE(found.size(), expected.size());
  for (size_t i = 0; i < found.size(); ++i) {
    ASSERT_TRUE(SameBits(found[i], expected[i]))
        << what << ": element " << i << " is " << found[i] << ", expected " << expected[i];
  }
}

PackedMatrix Pack(const TestWeights& weights) {
  PackedMatrix matrix = PackedMatrix::Allocate(weights.view, HeapAllocator()).value();
  EXPECT_TRUE(matrix.PackPanels(weights.view, 0, matrix.view().num_panels()).ok());
  return matrix;
}

const KernelTable& Generic() { return *RunnableTargets().front(); }

// ---- The documented order of additions, from the bytes of a file.

struct ReferenceBlock {
  float scales[2];  // Of inputs 0-15 and 16-31.
  float min;
  int codes[32];  // Less the code of zero.
};

float HalfAt(const uint8_t* p) {
  uint16_t half;
  std::memcpy(&half, p, 2);
  return F16ToF32(half);
}

// Block `b` of 32 inputs of a row.
ReferenceBlock ReadBlock(DType dtype, const uint8_t* row, uint32_t b) {
  ReferenceBlock block = {};
  const DTypeInfo& info = GetDTypeInfo(dtype);
  const uint8_t* p = row + (b * 32 / info.block_elements) * info.block_bytes;
  const uint32_t s = b % 8;  // In a super-block.
  float d = HalfAt(p), min = 0;
  for (uint32_t i = 0; i < 32; ++i) {
    int& code = block.codes[i];
    const auto nibble = [i](const uint8_t* qs) { return i < 16 ? qs[i] & 15 : qs[i - 16] >> 4; };
    const auto fifth = [i](const uint8_t* qh) { return ((qh[i / 8] >> (i % 8)) & 1) << 4; };
    const auto nibble_of_pair = [i, s](const uint8_t* qs) { return (qs[s / 2 * 32 + i] >> (s % 2 * 4)) & 15; };
    switch (dtype) {
      case DType::kQ4_0: code = nibble(p + 2) - 8; break;
      case DType::kQ4_1: code = nibble(p + 4); break;
      case DType::kQ5_0: code = (nibble(p + 6) | fifth(p + 2)) - 16; break;
      case DType::kQ5_1: code = nibble(p + 8) | fifth(p + 4); break;
      case DType::kQ8_0: code = static_cast<int8_t>(p[2 + i]); break;
      case DType::kQ4_K: code = nibble_of_pair(p + 16); break;
      case DType::kQ5_K: code = nibble_of_pair(p + 48) | ((p[16 + i] >> s) & 1) << 4; break;
      default: {  // Q6_K
        const int low = (p[s / 4 * 64 + s % 2 * 32 + i] >> (s % 4 / 2 * 4)) & 15;
        const int high = (p[128 + s / 4 * 32 + i] >> (s % 4 * 2)) & 3;
        code = (low | high << 4) - 32;
      }
    }
  }
  if (dtype == DType::kQ4_1 || dtype == DType::kQ5_1) min = HalfAt(p + 2);
  block.scales[0] = block.scales[1] = d;
  if (dtype == DType::kQ4_K || dtype == DType::kQ5_K) {
    const uint8_t* q = p + 4;
    const int scale = s < 4 ? q[s] & 63 : (q[s + 4] & 15) | (q[s - 4] >> 6) << 4;
    const int sub_min = s < 4 ? q[s + 4] & 63 : (q[s + 4] >> 4) | (q[s] >> 6) << 4;
    block.scales[0] = block.scales[1] = d * static_cast<float>(scale);
    min = -(HalfAt(p + 2) * static_cast<float>(sub_min));
  }
  if (dtype == DType::kQ6_K) {
    d = HalfAt(p + 208);
    for (uint32_t h = 0; h < 2; ++h) {
      block.scales[h] = d * static_cast<float>(static_cast<int8_t>(p[192 + 2 * s + h]));
    }
  }
  block.min = min;
  return block;
}

// One output of one row: activations as int8 per 32, then one chain over the blocks.
float ReferenceInt8(DType dtype, const uint8_t* row, const float* x, uint32_t num_inputs) {
  const bool has_min = dtype == DType::kQ4_1 || dtype == DType::kQ5_1 || dtype == DType::kQ4_K || dtype == DType::kQ5_K;
  float chain = 0;
  for (uint32_t b = 0; b < num_inputs / 32; ++b, x += 32) {
    float max = 0;
    bool is_finite = true;
    for (int i = 0; i < 32; ++i) {
      is_finite = is_finite && std::isfinite(x[i]);
      max = std::max(max, std::fabs(x[i]));
    }
    int codes[32] = {}, sum = 0;
    float dx = is_finite ? 0.0f : std::numeric_limits<float>::quiet_NaN();
    if (is_finite && max >= 0x1p-100f) {
      dx = max / 127.0f;
      for (int i = 0; i < 32; ++i) codes[i] = static_cast<int>(std::nearbyint(x[i] * (127.0f / max)));
    }
    for (const int code : codes) sum += code;
    const float sx = dx * static_cast<float>(sum);

    const ReferenceBlock block = ReadBlock(dtype, row, b);
    const int num_scales = dtype == DType::kQ6_K ? 2 : 1;
    for (int h = 0; h < num_scales; ++h) {
      int dot = 0;
      for (int i = 0; i < 32 / num_scales; ++i) dot += block.codes[h * 16 + i] * codes[h * 16 + i];
      float t = block.scales[h] * static_cast<float>(dot);
      if (t == 0) t = 0;  // +0: what fma(d, magic + dot, -d * magic) gives.
      chain = std::fma(t, dx, chain);
    }
    if (has_min) chain = std::fma(block.min, sx, chain);
  }
  return chain;
}

float ReferenceF32(const std::vector<float>& weights, const float* x) {
  float chain = 0;
  for (size_t k = 0; k < weights.size(); ++k) chain = std::fma(weights[k], x[k], chain);
  return chain;
}

// ---- `generic`.

TEST(GenericMatmulTest, Int8FollowsTheDocumentedOrder) {
  for (const DType dtype : kIntegerTypes) {
    const uint32_t num_inputs = 768, num_outputs = 19, num_rows = 3;
    const TestWeights weights(dtype, num_outputs, num_inputs, 11);
    const PackedMatrix matrix = Pack(weights);
    std::vector<float> x = RandomActivations(num_rows * num_inputs, 12);
    std::fill_n(x.begin() + num_inputs, 64, 0.0f);            // Blocks of zeros
    std::fill_n(x.begin() + num_inputs + 64, 32, 0x1p-101f);  // and of almost zeros.

    const std::vector<float> found = RunProduct(Generic(), matrix.view(), x, num_rows, ActivationForm::kInt8);

    for (uint32_t r = 0; r < num_rows; ++r) {
      for (uint32_t o = 0; o < num_outputs; ++o) {
        const float expected = ReferenceInt8(dtype, weights.view.row(o).data(), x.data() + r * num_inputs, num_inputs);
        ASSERT_TRUE(SameBits(found[r * num_outputs + o], expected))
            << weights.view.name << " row " << r << " output " << o << ": " << found[r * num_outputs + o]
            << ", expected " << expected;
      }
    }
  }
}

TEST(GenericMatmulTest, F32FollowsTheDocumentedOrder) {
  for (const DTypeInfo& info : AllDTypes()) {
    const uint32_t num_inputs = 768, num_outputs = 39, num_rows = 3;
    const TestWeights weights(info.dtype, num_outputs, num_inputs, 13);
    const PackedMatrix matrix = Pack(weights);
    const std::vector<float> x = RandomActivations(num_rows * num_inputs, 14);

    const std::vector<float> found = RunProduct(Generic(), matrix.view(), x, num_rows, ActivationForm::kF32);
    const std::vector<float> alone = RunProduct(Generic(), matrix.view(), x, 1, ActivationForm::kF32);

    for (uint32_t o = 0; o < num_outputs; ++o) {
      std::vector<float> row(num_inputs);
      DecodeRow(info.dtype, weights.view.row(o), row);
      for (uint32_t r = 0; r < num_rows; ++r) {
        const float expected = ReferenceF32(row, x.data() + r * num_inputs);
        ASSERT_TRUE(SameBits(found[r * num_outputs + o], expected)) << info.name << " row " << r << " output " << o;
        if (r == 0) {
          ASSERT_TRUE(SameBits(alone[o], expected)) << info.name << " output " << o;
        }
      }
    }
  }
}

// A chain of n fused steps is off by n half units in the last place of the sum of magnitudes at most; int8 activations
// add half a code to each of 32 inputs, that is max |x| / 254 against |x|.
TEST(GenericMatmulTest, IsCloseToF64) {
  for (const DTypeInfo& info : AllDTypes()) {
    const uint32_t num_inputs = 512, num_outputs = 16;
    const TestWeights weights(info.dtype, num_outputs, num_inputs, 15);
    const PackedMatrix matrix = Pack(weights);
    const std::vector<float> x = RandomActivations(num_inputs, 16);
    for (const ActivationForm form : {ActivationForm::kF32, ActivationForm::kInt8}) {
      if (form == ActivationForm::kInt8 && IsFloat(info.dtype)) continue;

      const std::vector<float> found = RunProduct(Generic(), matrix.view(), x, 1, form);

      for (uint32_t o = 0; o < num_outputs; ++o) {
        std::vector<float> row(num_inputs);
        DecodeRow(info.dtype, weights.view.row(o), row);
        double expected = 0, magnitudes = 0, quantised = 0;
        for (uint32_t block = 0; block < num_inputs; block += 32) {
          double max = 0, weight_sum = 0;
          for (uint32_t k = block; k < block + 32; ++k) {
            expected += static_cast<double>(row[k]) * x[k];
            magnitudes += std::fabs(static_cast<double>(row[k]) * x[k]);
            max = std::max(max, std::fabs(static_cast<double>(x[k])));
            weight_sum += std::fabs(static_cast<double>(row[k]));
          }
          quantised += max / 254 * weight_sum;
        }
        // The int8 form multiplies codes and minimum apart, so their magnitudes may exceed those of the weights.
        const double tolerance =
            form == ActivationForm::kF32 ? num_inputs * 0x1p-24 * magnitudes : quantised * 1.001 + 1e-3 * magnitudes;
        EXPECT_NEAR(found[o], expected, tolerance) << info.name << " output " << o;
      }
    }
  }
}

// ---- All targets.

class MatmulTest : public ::testing::TestWithParam<const KernelTable*> {
 protected:
  const KernelTable& target() const { return *GetParam(); }
};

std::string TargetName(const ::testing::TestParamInfo<const KernelTable*>& info) {
  std::string name = info.param->name;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(Targets, MatmulTest, ::testing::ValuesIn(RunnableTargets().begin(), RunnableTargets().end()),
                         TargetName);

// What `generic` gives for a problem; computed once for all targets.
const std::vector<float>& GenericResult(DType dtype, uint32_t num_outputs, uint32_t num_inputs, uint32_t num_rows,
                                        ActivationForm form, const PackedMatrix& matrix, const std::vector<float>& x) {
  static std::map<std::tuple<DType, uint32_t, uint32_t, uint32_t, ActivationForm>, std::vector<float>> results;
  std::vector<float>& result = results[{dtype, num_outputs, num_inputs, num_rows, form}];
  if (result.empty()) result = RunProduct(Generic(), matrix.view(), x, num_rows, form);
  return result;
}

void ExpectEveryBatchEqualsGeneric(const KernelTable& target, DType dtype, uint32_t num_outputs, uint32_t num_inputs,
                                   ActivationForm form, const std::vector<uint32_t>& batches) {
  const TestWeights weights(dtype, num_outputs, num_inputs, num_inputs + num_outputs);
  const PackedMatrix matrix = Pack(weights);
  const uint32_t max_rows = *std::max_element(batches.begin(), batches.end());
  const std::vector<float> x = RandomActivations(static_cast<size_t>(max_rows) * num_inputs, num_inputs);
  const std::vector<float>& expected = GenericResult(dtype, num_outputs, num_inputs, max_rows, form, matrix, x);
  for (const uint32_t num_rows : batches) {
    ExpectSameBits(RunProduct(target, matrix.view(), x, num_rows, form), expected,
                   weights.view.name + ", " + std::to_string(num_outputs) + " x " + std::to_string(num_inputs) +
                       ", rows " + std::to_string(num_rows));
  }
}

// 1 to 64: every size that a step of many sequences may have.
std::vector<uint32_t> AllBatches() {
  std::vector<uint32_t> sizes(64);
  std::iota(sizes.begin(), sizes.end(), 1u);
  return sizes;
}

TEST_P(MatmulTest, Int8OfEveryBatchEqualsGeneric) {
  for (const DType dtype : kIntegerTypes) {
    ExpectEveryBatchEqualsGeneric(target(), dtype, 48, 768, ActivationForm::kInt8, AllBatches());
  }
}

TEST_P(MatmulTest, Int8OfEveryNumberOfOutputsEqualsGeneric) {
  for (const DType dtype : kIntegerTypes) {
    for (const uint32_t num_outputs : {1u, 15u, 16u, 17u, 33u}) {
      ExpectEveryBatchEqualsGeneric(target(), dtype, num_outputs, 256, ActivationForm::kInt8, {1, 5, 60});
    }
  }
}

TEST_P(MatmulTest, Int8OfInputsThatFillNoChunkEqualsGeneric) {
  for (const DType dtype : kIntegerTypes) {
    const bool has_super_blocks = GetDTypeInfo(dtype).block_elements == 256;
    for (const uint32_t num_inputs :
         has_super_blocks ? std::vector<uint32_t>{1280, 2048} : std::vector<uint32_t>{32, 64, 576, 1056}) {
      ExpectEveryBatchEqualsGeneric(target(), dtype, 32, num_inputs, ActivationForm::kInt8, {1, 4, 20, 59});
    }
  }
}

TEST_P(MatmulTest, F32OfEveryBatchEqualsGeneric) {
  for (const DTypeInfo& info : AllDTypes()) {
    ExpectEveryBatchEqualsGeneric(target(), info.dtype, 17, 768, ActivationForm::kF32,
                                  {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 29, 40});
  }
}

TEST_P(MatmulTest, F32OfOneRowAndManyOutputsEqualsGeneric) {
  for (const DTypeInfo& info : AllDTypes()) {
    ExpectEveryBatchEqualsGeneric(target(), info.dtype, 150, 768, ActivationForm::kF32, {1});
  }
}

TEST_P(MatmulTest, F32OfAnyNumberOfInputsEqualsGeneric) {
  for (const DType dtype : kFloatTypes) {
    for (const uint32_t num_inputs : {1u, 15u, 17u, 300u}) {
      ExpectEveryBatchEqualsGeneric(target(), dtype, 150, num_inputs, ActivationForm::kF32, {1, 2, 16});
    }
  }
}

TEST_P(MatmulTest, WorstCaseCodesDoNotOverflow) {
  for (const DType dtype : kIntegerTypes) {
    for (const int fill : {0x00, 0x7f, 0x80, 0xff}) {
      const uint32_t num_inputs = 512, num_outputs = 16;
      TestWeights weights(dtype, num_outputs, num_inputs, 1);
      const DTypeInfo& info = GetDTypeInfo(dtype);
      std::fill(weights.bytes.begin(), weights.bytes.end(), static_cast<uint8_t>(fill));
      for (size_t block = 0; block < weights.bytes.size(); block += info.block_bytes) {
        const uint16_t one = 0x3c00;
        for (const size_t field : F16FieldsOf(dtype)) std::memcpy(weights.bytes.data() + block + field, &one, 2);
      }
      const PackedMatrix matrix = Pack(weights);
      std::vector<float> x(60 * num_inputs, 1.0f);
      for (size_t i = x.size() / 2; i < x.size(); ++i) x[i] = i % 2 == 0 ? -1.0f : (i % 3 == 0 ? 1.0f : -1.0f);
      for (const uint32_t num_rows : {1u, 13u, 60u}) {
        ExpectSameBits(RunProduct(target(), matrix.view(), x, num_rows, ActivationForm::kInt8),
                       RunProduct(Generic(), matrix.view(), x, num_rows, ActivationForm::kInt8), weights.view.name);
      }
    }
  }
}

TEST_P(MatmulTest, AnActivationThatIsNotFiniteMakesItsRowNanAndNoOther) {
  for (const DType dtype : {DType::kQ4_1, DType::kQ8_0, DType::kQ6_K}) {
    const uint32_t num_inputs = 512, num_outputs = 32, num_rows = 3;
    const TestWeights weights(dtype, num_outputs, num_inputs, 2);
    const PackedMatrix matrix = Pack(weights);
    const std::vector<float> clean = RandomActivations(num_rows * num_inputs, 3);
    for (const float poison : {std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity(),
                               std::numeric_limits<float>::quiet_NaN()}) {
      std::vector<float> x = clean;
      x[num_inputs + 301] = poison;

      const std::vector<float> found = RunProduct(target(), matrix.view(), x, num_rows, ActivationForm::kInt8);

      const std::vector<float> expected = RunProduct(Generic(), matrix.view(), clean, num_rows, ActivationForm::kInt8);
      for (uint32_t i = 0; i < num_rows * num_outputs; ++i) {
        if (i / num_outputs == 1) {
          EXPECT_TRUE(std::isnan(found[i]));
        } else {
          EXPECT_TRUE(SameBits(found[i], expected[i]));
        }
      }
    }
  }
}

TEST_P(MatmulTest, CutsOfRowsColumnsAndPanelsChangeNothing) {
  TestRandom random(5);
  for (const DType dtype : {DType::kQ4_1, DType::kQ8_0, DType::kQ5_K, DType::kQ6_K, DType::kF16}) {
    const uint32_t num_inputs = 768, num_outputs = 100, num_rows = 61;
    const TestWeights weights(dtype, num_outputs, num_inputs, 6);
    const PackedMatrix matrix = Pack(weights);
    const std::vector<float> x = RandomActivations(num_rows * num_inputs, 7);
    const ActivationForm form = IsFloat(dtype) ? ActivationForm::kF32 : ActivationForm::kInt8;
    const std::vector<float> whole = RunProduct(target(), matrix.view(), x, num_rows, form);
    for (int i = 0; i < 4; ++i) {
      ProductCuts cuts;
      cuts.rows = {random.Below(30), 30 + random.Below(32)};
      cuts.columns = {random.Below(12) * 32, (12 + random.Below(12)) * 32};
      cuts.panels = {random.Below(3), 3 + random.Below(4)};

      ExpectSameBits(RunProduct(target(), matrix.view(), x, num_rows, form, cuts), whole, weights.view.name);
    }
  }
}

TEST_P(MatmulTest, AccumulateAddsTheFinishedSumOnce) {
  for (const DTypeInfo& info : AllDTypes()) {
    const ActivationForm form = IsFloat(info.dtype) ? ActivationForm::kF32 : ActivationForm::kInt8;
    const uint32_t num_inputs = 768, num_outputs = 48, num_rows = 60;
    const TestWeights weights(info.dtype, num_outputs, num_inputs, 8);
    const PackedMatrix matrix = Pack(weights);
    const std::vector<float> x = RandomActivations(num_rows * num_inputs, 9);
    const std::vector<float> before = RandomActivations(num_rows * num_outputs, 10);
    std::vector<float> expected = RunProduct(target(), matrix.view(), x, num_rows, form);
    for (size_t i = 0; i < expected.size(); ++i) expected[i] = before[i] + expected[i];

    ExpectSameBits(RunProduct(target(), matrix.view(), x, num_rows, form, {}, before), expected, weights.view.name);
  }
}

TEST_P(MatmulTest, TheResidualIsWhatTheInt8FormLeaves) {
  std::vector<float> x = RandomActivations(160, 1);
  std::fill_n(x.begin() + 32, 32, 0.0f);
  x[64 + 5] = std::numeric_limits<float>::infinity();
  std::vector<float> found(160), expected(160);

  target().int8_residual(x.data(), 160, found.data());

  Generic().int8_residual(x.data(), 160, expected.data());
  ExpectSameBits(found, expected, "residual");
  for (uint32_t block : {0u, 96u, 128u}) {
    const float max = std::fabs(*std::max_element(x.begin() + block, x.begin() + block + 32,
                                                  [](float a, float b) { return std::fabs(a) < std::fabs(b); }));
    for (uint32_t i = block; i < block + 32; ++i) {
      const float dx = max / 127.0f;
      EXPECT_EQ(found[i], std::fma(-dx, std::nearbyint(x[i] * (127.0f / max)), x[i]));
      EXPECT_LE(std::fabs(found[i]), dx * 0.5001f);
    }
  }
  EXPECT_THAT(std::span(found).subspan(32, 32), ::testing::Each(0.0f));
  EXPECT_TRUE(std::isnan(found[64]));
}

TEST_P(MatmulTest, NoOutputsAndNoPanelsWriteNothing) {
  const TestWeights weights(DType::kQ4_0, 0, 32, 1);
  const PackedMatrix matrix = Pack(weights);

  EXPECT_TRUE(RunProduct(target(), matrix.view(), RandomActivations(64, 1), 2, ActivationForm::kInt8).empty());
}

}  // namespace
}  // namespace kvern
