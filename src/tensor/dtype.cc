#include "tensor/dtype.h"

#include <array>

#include "base/check.h"
#include "tensor/ggml_types.h"

namespace kvern {
namespace {

constexpr GgmlType kGgmlTypes[] = {
    {0, "F32", 1, 4},         {1, "F16", 1, 2},         {2, "Q4_0", 32, 18},      {3, "Q4_1", 32, 20},
    {4, "Q4_2", 0, 0},        {5, "Q4_3", 0, 0},        {6, "Q5_0", 32, 22},      {7, "Q5_1", 32, 24},
    {8, "Q8_0", 32, 34},      {9, "Q8_1", 32, 40},      {10, "Q2_K", 256, 84},    {11, "Q3_K", 256, 110},
    {12, "Q4_K", 256, 144},   {13, "Q5_K", 256, 176},   {14, "Q6_K", 256, 210},   {15, "Q8_K", 256, 292},
    {16, "IQ2_XXS", 256, 66}, {17, "IQ2_XS", 256, 74},  {18, "IQ3_XXS", 256, 98}, {19, "IQ1_S", 256, 50},
    {20, "IQ4_NL", 32, 18},   {21, "IQ3_S", 256, 110},  {22, "IQ2_S", 256, 82},   {23, "IQ4_XS", 256, 136},
    {24, "I8", 1, 1},         {25, "I16", 1, 2},        {26, "I32", 1, 4},        {27, "I64", 1, 8},
    {28, "F64", 1, 8},        {29, "IQ1_M", 256, 56},   {30, "BF16", 1, 2},       {31, "Q4_0_4_4", 0, 0},
    {32, "Q4_0_4_8", 0, 0},   {33, "Q4_0_8_8", 0, 0},   {34, "TQ1_0", 256, 54},   {35, "TQ2_0", 256, 66},
    {36, "IQ4_NL_4_4", 0, 0}, {37, "IQ4_NL_4_8", 0, 0}, {38, "IQ4_NL_8_8", 0, 0}, {39, "MXFP4", 32, 17},
    {40, "NVFP4", 64, 36},    {41, "Q1_0", 128, 18},
};
constexpr uint32_t kNumGgmlTypes = sizeof(kGgmlTypes) / sizeof(kGgmlTypes[0]);
static_assert(kGgmlTypes[kNumGgmlTypes - 1].id == kNumGgmlTypes - 1, "the table is indexed by id");

constexpr DTypeInfo InfoOf(DType dtype) {
  const GgmlType& type = kGgmlTypes[static_cast<uint32_t>(dtype)];
  return {dtype, type.name, type.block_elements, type.block_bytes};
}

constexpr std::array kDTypes = {
    InfoOf(DType::kF32),  InfoOf(DType::kF16),  InfoOf(DType::kQ4_0), InfoOf(DType::kQ4_1),
    InfoOf(DType::kQ5_0), InfoOf(DType::kQ5_1), InfoOf(DType::kQ8_0), InfoOf(DType::kQ4_K),
    InfoOf(DType::kQ5_K), InfoOf(DType::kQ6_K), InfoOf(DType::kBF16),
};

}  // namespace

const GgmlType* FindGgmlType(uint32_t id) { return id < kNumGgmlTypes ? &kGgmlTypes[id] : nullptr; }

std::span<const DTypeInfo> AllDTypes() { return kDTypes; }

const DTypeInfo& GetDTypeInfo(DType dtype) {
  for (const DTypeInfo& info : kDTypes) {
    if (info.dtype == dtype) return info;
  }
  KVERN_CHECK(false);
}

std::optional<DType> DTypeFromGgmlId(uint32_t id) {
  for (const DTypeInfo& info : kDTypes) {
    if (static_cast<uint32_t>(info.dtype) == id) return info.dtype;
  }
  return std::nullopt;
}

std::string GgmlTypeName(uint32_t id) {
  const GgmlType* type = FindGgmlType(id);
  return type != nullptr ? std::string(type->name) : "type " + std::to_string(id);
}

std::string SupportedDTypeNames() {
  std::string names;
  for (const DTypeInfo& info : kDTypes) {
    if (!names.empty()) names += ", ";
    names += info.name;
  }
  return names;
}

size_t RowBytes(DType dtype, size_t num_elements) {
  const DTypeInfo& info = GetDTypeInfo(dtype);
  KVERN_DCHECK(num_elements % info.block_elements == 0);
  return num_elements / info.block_elements * info.block_bytes;
}

}  // namespace kvern
