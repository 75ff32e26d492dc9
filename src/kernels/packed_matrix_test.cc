#include "kernels/packed_matrix.h"

#include <gmock/gmock.h>

#include <bit>
#include <cmath>
#include <limits>

#include "kernels/testing/random_weights.h"
#include "tensor/quant_formats.h"

namespace kvern {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class PackedMatrixTest : public ::testing::TestWithParam<DType> {
 protected:
  DType dtype() const { return GetParam(); }
  // The smallest number of inputs that the type allows, times n.
  uint32_t Inputs(uint32_t n) const { return GetDTypeInfo(dtype()).block_elements * n; }
};

std::string TypeName(const ::testing::TestParamInfo<DType>& info) { return std::string(GetDTypeInfo(info.param).name); }

std::vector<DType> AllTypes() {
  std::vector<DType> types;
  for (const DTypeInfo& info : AllDTypes()) types.push_back(info.dtype);
  return types;
}

INSTANTIATE_TEST_SUITE_P(Types, PackedMatrixTest, ::testing::ValuesIn(AllTypes()), TypeName);

TEST_P(PackedMatrixTest, DecodesEveryRowAsTheFileBytesDecode) {
  for (const uint32_t num_outputs : {1u, 15u, 16u, 17u, 40u}) {
    const TestWeights weights(dtype(), num_outputs, Inputs(9), num_outputs);
    PackedMatrix matrix = PackedMatrix::Allocate(weights.view, HeapAllocator()).value();
    ASSERT_TRUE(matrix.PackPanels(weights.view, 0, matrix.view().num_panels()).ok());

    for (uint32_t row = 0; row < num_outputs; ++row) {
      std::vector<float> expected(Inputs(9)), found(Inputs(9));
      DecodeRow(dtype(), weights.view.row(row), expected);
      matrix.DecodeRow(row, found);
      for (size_t i = 0; i < found.size(); ++i) {
        ASSERT_EQ(std::bit_cast<uint32_t>(found[i]), std::bit_cast<uint32_t>(expected[i])) << row << " " << i;
      }
    }
  }
}

TEST_P(PackedMatrixTest, KeepsTheWidthOfTheFile) {
  const uint32_t num_inputs = Inputs(4);

  EXPECT_EQ(PackedMatrix::PackedBytes(dtype(), 32, num_inputs), 32 * RowBytes(dtype(), num_inputs));
  EXPECT_EQ(PackedMatrix::PackedBytes(dtype(), 33, num_inputs), 48 * RowBytes(dtype(), num_inputs));
  EXPECT_EQ(PackedMatrix::PackedBytes(dtype(), 0, num_inputs), 0u);
}

TEST_P(PackedMatrixTest, PacksPanelsInAnyOrderToTheSameBytes) {
  const TestWeights weights(dtype(), 50, Inputs(3), 7);
  PackedMatrix whole = PackedMatrix::Allocate(weights.view, HeapAllocator()).value();
  PackedMatrix parts = PackedMatrix::Allocate(weights.view, HeapAllocator()).value();

  ASSERT_TRUE(whole.PackPanels(weights.view, 0, 4).ok());
  ASSERT_TRUE(parts.PackPanels(weights.view, 2, 4).ok());
  ASSERT_TRUE(parts.PackPanels(weights.view, 0, 2).ok());

  EXPECT_EQ(std::memcmp(whole.view().data, parts.view().data, whole.size_bytes()), 0);
}

TEST_P(PackedMatrixTest, AcceptsAMatrixWithoutOutputs) {
  const TestWeights weights(dtype(), 0, Inputs(1), 1);

  Result<PackedMatrix> matrix = PackedMatrix::Allocate(weights.view, HeapAllocator());

  ASSERT_TRUE(matrix.ok());
  EXPECT_EQ(matrix.value().view().num_panels(), 0u);
}

TEST_P(PackedMatrixTest, RefusesAScaleThatIsNotFiniteAndNamesTensorAndRow) {
  TestWeights weights(dtype(), 20, Inputs(2), 3);
  const DTypeInfo& info = GetDTypeInfo(dtype());
  const std::vector<size_t> fields = IsFloat(dtype()) ? std::vector<size_t>{0} : F16FieldsOf(dtype());
  for (const size_t field : fields) {
    TestWeights damaged(dtype(), 20, Inputs(2), 3);
    uint8_t* p = damaged.bytes.data() + 17 * RowBytes(dtype(), Inputs(2)) + info.block_bytes + field;
    const uint16_t half = dtype() == DType::kBF16 ? 0x7f80 : 0x7c00;
    const float infinity = std::numeric_limits<float>::infinity();
    if (dtype() == DType::kF32) {
      std::memcpy(p, &infinity, 4);
    } else {
      std::memcpy(p, &half, 2);
    }
    PackedMatrix matrix = PackedMatrix::Allocate(damaged.view, HeapAllocator()).value();

    EXPECT_TRUE(matrix.PackPanels(damaged.view, 0, 1).ok());
    const Status status = matrix.PackPanels(damaged.view, 1, 2);

    EXPECT_EQ(status.code(), StatusCode::kCorruption);
    EXPECT_THAT(status.message(), AllOf(HasSubstr(damaged.view.name), HasSubstr("row 17"), HasSubstr("not finite")));
  }
}

TEST(PackedMatrixShapeTest, RefusesInputsThatAreNoMultipleOfTheBlock) {
  TensorView view;
  view.name = "blk.0.ffn_up.weight";
  view.dtype = DType::kQ4_K;
  view.num_dims = 2;
  view.dims = {288, 2, 1, 1};

  const Status status = PackedMatrix::Allocate(view, HeapAllocator()).status();

  EXPECT_EQ(status.code(), StatusCode::kCorruption);
  EXPECT_THAT(status.message(), AllOf(HasSubstr("blk.0.ffn_up.weight"), HasSubstr("288"), HasSubstr("256")));
}

TEST(PackedMatrixShapeTest, RefusesThreeDimensionsAndTooManyInputs) {
  TensorView view;
  view.name = "experts";
  view.dtype = DType::kQ8_0;
  view.num_dims = 3;
  view.dims = {32, 16, 4, 1};
  EXPECT_EQ(PackedMatrix::Allocate(view, HeapAllocator()).status().code(), StatusCode::kUnsupported);

  view.num_dims = 2;
  view.dims = {1u << 20, 16, 1, 1};
  EXPECT_EQ(PackedMatrix::Allocate(view, HeapAllocator()).status().code(), StatusCode::kUnsupported);

  view.dims = {0, 16, 1, 1};
  EXPECT_EQ(PackedMatrix::Allocate(view, HeapAllocator()).status().code(), StatusCode::kUnsupported);
}

}  // namespace
}  // namespace kvern
