#include "gguf/gguf_value.h"

#include <bit>
#include <cstdio>

#include "base/byte_reader.h"
#include "base/check.h"

namespace kvern {
namespace {

struct TypeInfo {
  std::string_view name;
  size_t scalar_bytes;
};

constexpr TypeInfo kTypes[kNumGgufTypes] = {{"u8", 1},  {"i8", 1},  {"u16", 2},  {"i16", 2},    {"u32", 4},
                                            {"i32", 4}, {"f32", 4}, {"bool", 1}, {"string", 0}, {"array", 0},
                                            {"u64", 8}, {"i64", 8}, {"f64", 8}};

bool IsSigned(GgufType type) {
  return type == GgufType::kI8 || type == GgufType::kI16 || type == GgufType::kI32 || type == GgufType::kI64;
}

template <typename T>
uint64_t Widen(const uint8_t* bytes) {
  return static_cast<uint64_t>(static_cast<int64_t>(LoadLittleEndian<T>(bytes)));
}

uint64_t LoadScalarBits(GgufType type, const uint8_t* bytes) {
  switch (type) {
    case GgufType::kU8: return *bytes;
    case GgufType::kI8: return Widen<int8_t>(bytes);
    case GgufType::kU16: return LoadLittleEndian<uint16_t>(bytes);
    case GgufType::kI16: return Widen<int16_t>(bytes);
    case GgufType::kU32: return LoadLittleEndian<uint32_t>(bytes);
    case GgufType::kI32: return Widen<int32_t>(bytes);
    case GgufType::kF32: return std::bit_cast<uint64_t>(static_cast<double>(LoadLittleEndian<float>(bytes)));
    case GgufType::kBool: return *bytes != 0 ? 1 : 0;
    case GgufType::kU64: return LoadLittleEndian<uint64_t>(bytes);
    case GgufType::kI64: return LoadLittleEndian<uint64_t>(bytes);
    case GgufType::kF64: return std::bit_cast<uint64_t>(LoadLittleEndian<double>(bytes));
    case GgufType::kString:
    case GgufType::kArray: break;
  }
  KVERN_CHECK(false);
}

}  // namespace

std::string_view GgufTypeName(GgufType type) { return kTypes[static_cast<uint32_t>(type)].name; }
size_t GgufScalarBytes(GgufType type) { return kTypes[static_cast<uint32_t>(type)].scalar_bytes; }

std::string QuotedForMessage(std::string_view text) {
  constexpr size_t kMaxBytes = 80;
  std::string quoted = "'";
  for (const char c : text.substr(0, kMaxBytes)) {
    if (c >= 0x20 && c < 0x7f) {
      quoted += c;
    } else {
      char escaped[8];
      std::snprintf(escaped, sizeof(escaped), "\\x%02x", static_cast<unsigned>(static_cast<uint8_t>(c)));
      quoted += escaped;
    }
  }
  return quoted + (text.size() > kMaxBytes ? "...'" : "'");
}

GgufValue GgufValue::Scalar(GgufType type, const uint8_t* bytes) {
  GgufValue value;
  value.type_ = type;
  value.bits_ = LoadScalarBits(type, bytes);
  return value;
}

GgufValue GgufValue::String(std::string_view text) {
  GgufValue value;
  value.type_ = GgufType::kString;
  value.bytes_ = {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
  return value;
}

GgufValue GgufValue::ScalarArray(GgufType element_type, std::span<const uint8_t> bytes) {
  GgufValue value;
  value.type_ = GgufType::kArray;
  value.element_type_ = element_type;
  value.bytes_ = bytes;
  return value;
}

GgufValue GgufValue::StringArray(std::vector<std::string_view> strings) {
  GgufValue value;
  value.type_ = GgufType::kArray;
  value.element_type_ = GgufType::kString;
  value.strings_ = std::move(strings);
  return value;
}

GgufValue GgufValue::NestedArray(std::vector<GgufValue> arrays) {
  GgufValue value;
  value.type_ = GgufType::kArray;
  value.element_type_ = GgufType::kArray;
  value.arrays_ = std::move(arrays);
  return value;
}

uint64_t GgufValue::size() const {
  if (!is_array()) return 0;
  if (element_type_ == GgufType::kString) return strings_.size();
  if (element_type_ == GgufType::kArray) return arrays_.size();
  return bytes_.size() / GgufScalarBytes(element_type_);
}

std::optional<uint64_t> GgufValue::AsUint() const {
  if (!IsInteger(type_)) return std::nullopt;
  if (IsSigned(type_) && static_cast<int64_t>(bits_) < 0) return std::nullopt;
  return bits_;
}

std::optional<int64_t> GgufValue::AsInt() const {
  if (!IsInteger(type_)) return std::nullopt;
  if (!IsSigned(type_) && static_cast<int64_t>(bits_) < 0) return std::nullopt;
  return static_cast<int64_t>(bits_);
}

std::optional<double> GgufValue::AsFloat() const {
  if (type_ == GgufType::kF32 || type_ == GgufType::kF64) return std::bit_cast<double>(bits_);
  if (!IsInteger(type_)) return std::nullopt;
  return IsSigned(type_) ? static_cast<double>(static_cast<int64_t>(bits_)) : static_cast<double>(bits_);
}

std::optional<bool> GgufValue::AsBool() const {
  if (type_ != GgufType::kBool) return std::nullopt;
  return bits_ != 0;
}

std::optional<std::string_view> GgufValue::AsString() const {
  if (type_ != GgufType::kString) return std::nullopt;
  return std::string_view(reinterpret_cast<const char*>(bytes_.data()), bytes_.size());
}

GgufValue GgufValue::At(uint64_t i) const {
  KVERN_CHECK(i < size());
  if (element_type_ == GgufType::kString) return String(strings_[i]);
  if (element_type_ == GgufType::kArray) return arrays_[i];
  return Scalar(element_type_, bytes_.data() + i * GgufScalarBytes(element_type_));
}

std::string GgufValue::TypeName() const {
  if (!is_array()) return std::string(GgufTypeName(type_));
  return "array of " + std::to_string(size()) + " " + std::string(GgufTypeName(element_type_));
}

std::string GgufValue::ToString(uint64_t max_elements) const {
  if (const auto text = AsString()) return std::string(*text);
  if (const auto flag = AsBool()) return *flag ? "true" : "false";
  if (const auto integer = AsInt()) return std::to_string(*integer);
  if (const auto integer = AsUint()) return std::to_string(*integer);
  if (const auto number = AsFloat()) {
    char text[40];
    std::snprintf(text, sizeof(text), type_ == GgufType::kF32 ? "%.9g" : "%.17g", *number);
    return text;
  }
  std::string text = "[";
  for (uint64_t i = 0; i < size() && i < max_elements; ++i) {
    if (i > 0) text += ", ";
    text += element_type_ == GgufType::kString ? QuotedForMessage(strings_[i]) : At(i).ToString(max_elements);
  }
  if (size() > max_elements) text += ", ... " + std::to_string(size()) + " in all";
  return text + "]";
}

}  // namespace kvern
