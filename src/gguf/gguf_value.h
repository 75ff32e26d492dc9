// GgufValue: one metadata value of a GGUF file, of any of the format's types.
// Strings and arrays of scalars are views into the file's bytes and live as long as the GgufFile they came from.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace kvern {

// Values are the type ids of the GGUF format.
enum class GgufType : uint32_t {
  kU8 = 0,
  kI8 = 1,
  kU16 = 2,
  kI16 = 3,
  kU32 = 4,
  kI32 = 5,
  kF32 = 6,
  kBool = 7,
  kString = 8,
  kArray = 9,
  kU64 = 10,
  kI64 = 11,
  kF64 = 12,
};

constexpr uint32_t kNumGgufTypes = 13;

// "u8", "f32", "bool", "string", "array".
std::string_view GgufTypeName(GgufType type);
// Bytes of a scalar of this type; 0 for strings and arrays.
size_t GgufScalarBytes(GgufType type);
constexpr bool IsInteger(GgufType t) {
  return t != GgufType::kF32 && t != GgufType::kF64 && t != GgufType::kBool && t != GgufType::kString &&
         t != GgufType::kArray;
}

// `text` in single quotes for a message: bytes outside printable ASCII as \xNN, cut after 80 bytes with "...".
std::string QuotedForMessage(std::string_view text);

class GgufValue {
 public:
  // A scalar from its little-endian bytes, GgufScalarBytes(type) of them.
  static GgufValue Scalar(GgufType type, const uint8_t* bytes);
  static GgufValue String(std::string_view text);
  // `bytes` holds the elements one after another; element_type is a scalar type.
  static GgufValue ScalarArray(GgufType element_type, std::span<const uint8_t> bytes);
  static GgufValue StringArray(std::vector<std::string_view> strings);
  static GgufValue NestedArray(std::vector<GgufValue> arrays);

  GgufType type() const { return type_; }
  bool is_array() const { return type_ == GgufType::kArray; }
  // Of an array. An empty array keeps the element type that the file gives it.
  GgufType element_type() const { return element_type_; }
  // Elements of an array; 0 for any other type.
  uint64_t size() const;

  // The scalar, where its type and range allow: any integer type that holds it; floats also take integers.
  std::optional<uint64_t> AsUint() const;
  std::optional<int64_t> AsInt() const;
  std::optional<double> AsFloat() const;
  std::optional<bool> AsBool() const;
  std::optional<std::string_view> AsString() const;

  // Element i < size() of an array, as a value of its own.
  GgufValue At(uint64_t i) const;
  // The elements of an array of strings / of arrays; empty for any other type.
  std::span<const std::string_view> strings() const { return strings_; }
  std::span<const GgufValue> arrays() const { return arrays_; }

  // "u32", "array of 49152 string".
  std::string TypeName() const;
  // For people: "32", "llama", "[1, 2, 3, ... 49152 in all]" with at most `max_elements` elements of each array.
  std::string ToString(uint64_t max_elements = 8) const;

 private:
  GgufType type_ = GgufType::kU8;
  GgufType element_type_ = GgufType::kU8;
  uint64_t bits_ = 0;               // Scalars: integers widened to 64 bits, f64 as its bits, bool as 0 or 1.
  std::span<const uint8_t> bytes_;  // Strings and arrays of scalars.
  std::vector<std::string_view> strings_;
  std::vector<GgufValue> arrays_;
};

}  // namespace kvern
