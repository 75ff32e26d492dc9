// The element types of GGUF tensors that kvern reads, with their block geometry.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace kvern {

// Values are the type ids of the GGUF format.
enum class DType : uint32_t {
  kF32 = 0,
  kF16 = 1,
  kQ4_0 = 2,
  kQ4_1 = 3,
  kQ5_0 = 6,
  kQ5_1 = 7,
  kQ8_0 = 8,
  kQ4_K = 12,
  kQ5_K = 13,
  kQ6_K = 14,
  kBF16 = 30,
};

// A row of a tensor is a sequence of blocks: `block_elements` values stored in `block_bytes` bytes.
struct DTypeInfo {
  DType dtype;
  std::string_view name;  // "Q4_K", as the field writes it.
  uint32_t block_elements;
  uint32_t block_bytes;
};

// All supported types in the order of their ids.
std::span<const DTypeInfo> AllDTypes();
const DTypeInfo& GetDTypeInfo(DType dtype);
// The type with this GGUF id, or nullopt where kvern does not read it.
std::optional<DType> DTypeFromGgmlId(uint32_t id);
// Name of any GGUF type id, read by kvern or not: "IQ2_XS", "TQ1_0"; "type 99" for an unknown one.
std::string GgmlTypeName(uint32_t id);
// "F32, F16, Q4_0, ...": for error messages.
std::string SupportedDTypeNames();

// Float types are multiplied as they are; the others are integer codes with scales.
constexpr bool IsFloat(DType t) { return t == DType::kF32 || t == DType::kF16 || t == DType::kBF16; }

// Bytes of a row of `num_elements` values, which must be a multiple of block_elements.
size_t RowBytes(DType dtype, size_t num_elements);

}  // namespace kvern
