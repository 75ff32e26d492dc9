#include "server/field_reader.h"

#include <utility>

namespace kvern::server {
namespace {

std::string NumberText(double value) {
  char text[32];
  std::snprintf(text, sizeof(text), "%g", value);
  return text;
}

std::string RangeText(double min, double max) { return NumberText(min) + " to " + NumberText(max); }

}  // namespace

void FieldErrors::Fail(const std::string& path, const std::string& message) {
  if (first.has_value()) return;
  first = ApiError{.message = path.empty() ? message : path + ": " + message, .param = path};
}

const char* KindName(const Json& json) {
  switch (json.type()) {
    case Json::value_t::null: return "null";
    case Json::value_t::object: return "an object";
    case Json::value_t::array: return "an array";
    case Json::value_t::string: return "a string";
    case Json::value_t::boolean: return "a boolean";
    default: return "a number";
  }
}

std::optional<uint64_t> AsUnsigned(const Json& json, uint64_t max) {
  if (!json.is_number_unsigned()) return std::nullopt;
  const auto value = json.get<uint64_t>();
  if (value > max) return std::nullopt;
  return value;
}

FieldReader::FieldReader(const Json& object, std::string path, FieldErrors& errors)
    : object_(object), path_(std::move(path)), errors_(errors) {
  if (object.is_object()) return;
  errors_.Fail(path_, std::string(path_.empty() ? "the body is " : "is ") + KindName(object) + ", expected an object");
}

std::string FieldReader::PathOf(std::string_view name) const {
  return path_.empty() ? std::string(name) : path_ + "." + std::string(name);
}

const Json* FieldReader::Find(std::string_view name) {
  if (errors_.names_read != nullptr) errors_.names_read->insert(PathOf(name));
  if (!object_.is_object()) return nullptr;
  const auto found = object_.find(name);
  return found == object_.end() || found->is_null() ? nullptr : &*found;
}

void FieldReader::FailKind(std::string_view name, const char* expected, const Json& found) {
  Fail(name, std::string("expected ") + expected + ", found " + KindName(found));
}

void FieldReader::Bool(std::string_view name, bool& out) {
  const Json* const field = Find(name);
  if (field == nullptr) return;
  if (!field->is_boolean()) return FailKind(name, "a boolean", *field);
  out = field->get<bool>();
}

void FieldReader::Float(std::string_view name, float& out, double min, double max) {
  const Json* const field = Find(name);
  if (field == nullptr) return;
  if (!field->is_number()) return FailKind(name, "a number", *field);
  const double value = field->get<double>();
  if (!(value >= min && value <= max)) {
    return Fail(name, "is " + NumberText(value) + ", expected " + RangeText(min, max));
  }
  out = static_cast<float>(value);
}

void FieldReader::UInt32(std::string_view name, uint32_t& out, uint32_t min, uint32_t max) {
  const Json* const field = Find(name);
  if (field == nullptr) return;
  if (!field->is_number()) return FailKind(name, "an integer", *field);
  const std::optional<uint64_t> value = AsUnsigned(*field, max);
  if (!value.has_value() || *value < min) {
    return Fail(name, "is " + ShowJson(*field) + ", expected an integer from " + std::to_string(min) + " to " +
                          std::to_string(max));
  }
  out = static_cast<uint32_t>(*value);
}

void FieldReader::String(std::string_view name, std::string& out) {
  const Json* const field = Find(name);
  if (field == nullptr) return;
  if (!field->is_string()) return FailKind(name, "a string", *field);
  out = field->get_ref<const std::string&>();
}

void FieldReader::Bits64(std::string_view name, std::optional<uint64_t>& out) {
  const Json* const field = Find(name);
  if (field == nullptr) return;
  if (!field->is_number_integer()) return Fail(name, "is " + ShowJson(*field) + ", expected an integer");
  out = field->is_number_unsigned() ? field->get<uint64_t>() : static_cast<uint64_t>(field->get<int64_t>());
}

}  // namespace kvern::server
