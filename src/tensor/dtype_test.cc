#include "tensor/dtype.h"

#include <gtest/gtest.h>

#include <vector>

#include "tensor/ggml_types.h"
#include "tensor/tensor_view.h"

namespace kvern {
namespace {

TEST(DTypeTest, EveryTypeIsFoundByItsIdAndNamed) {
  for (const DTypeInfo& info : AllDTypes()) {
    const auto id = static_cast<uint32_t>(info.dtype);

    EXPECT_EQ(DTypeFromGgmlId(id), info.dtype);
    EXPECT_EQ(GgmlTypeName(id), info.name);
    EXPECT_EQ(GetDTypeInfo(info.dtype).block_bytes, info.block_bytes);
  }
}

TEST(DTypeTest, TypesThatAreNotReadHaveANameAndASize) {
  EXPECT_EQ(DTypeFromGgmlId(17), std::nullopt);
  EXPECT_EQ(GgmlTypeName(17), "IQ2_XS");
  EXPECT_EQ(GgmlTypeName(34), "TQ1_0");
  EXPECT_EQ(FindGgmlType(39)->block_bytes, 17u);
}

TEST(DTypeTest, UnknownIdsAreNamedByTheirNumber) {
  EXPECT_EQ(DTypeFromGgmlId(99), std::nullopt);
  EXPECT_EQ(FindGgmlType(99), nullptr);
  EXPECT_EQ(GgmlTypeName(99), "type 99");
}

TEST(DTypeTest, SupportedTypesAreListedInTheOrderOfTheirIds) {
  EXPECT_EQ(SupportedDTypeNames(), "F32, F16, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q4_K, Q5_K, Q6_K, BF16");
}

TEST(DTypeTest, RowBytesCountsWholeBlocks) {
  EXPECT_EQ(RowBytes(DType::kF32, 3), 12u);
  EXPECT_EQ(RowBytes(DType::kQ4_1, 64), 40u);
  EXPECT_EQ(RowBytes(DType::kQ6_K, 512), 420u);
  EXPECT_EQ(RowBytes(DType::kQ8_0, 0), 0u);
}

TEST(TensorViewTest, RowsFollowOneAnother) {
  const std::vector<uint8_t> bytes(2 * 3 * 2);
  const TensorView view = {"w", DType::kF16, 2, {2, 3, 1, 1}, bytes};

  EXPECT_EQ(view.num_rows(), 3u);
  EXPECT_EQ(view.row_bytes(), 4u);
  EXPECT_EQ(view.row(2).data(), bytes.data() + 8);
}

}  // namespace
}  // namespace kvern
