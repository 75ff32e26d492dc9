// FieldReader: takes the fields of a JSON object with their types and limits, and says which one is wrong.
//
//   FieldErrors errors;
//   FieldReader fields(body, "", errors);
//   fields.Float("temperature", options.temperature, 0, 2);
//   if (errors.first) return *errors.first;    // "temperature: expected a number, found a string"
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "server/api_error.h"
#include "server/json.h"

namespace kvern::server {

// What went wrong in a body, over all its readers: the first thing counts.
struct FieldErrors {
  std::optional<ApiError> first;
  std::set<std::string>* names_read = nullptr;  // For tests: the paths of all fields that were looked for.

  // `path`: "messages[2].role".
  void Fail(const std::string& path, const std::string& message);
};

// "a string", "an object": for messages.
const char* KindName(const Json& json);

class FieldReader {
 public:
  // path: of the object; "" is the body itself. Both must outlive the reader. Where `object` is no object, that is the
  // error.
  FieldReader(const Json& object, std::string path, FieldErrors& errors);

  // Null where the field is absent or null, which means the same.
  const Json* Find(std::string_view name);
  // Each leaves `out` as it is where there is no such field, or a wrong one. Limits are inclusive.
  void Bool(std::string_view name, bool& out);
  void Float(std::string_view name, float& out, double min, double max);
  void UInt32(std::string_view name, uint32_t& out, uint32_t min, uint32_t max);
  void String(std::string_view name, std::string& out);
  // An integer of any sign, as its bits.
  void Bits64(std::string_view name, std::optional<uint64_t>& out);

  // "messages[2].role" for "role".
  std::string PathOf(std::string_view name) const;
  void Fail(std::string_view name, const std::string& message) { errors_.Fail(PathOf(name), message); }
  FieldErrors& errors() { return errors_; }
  bool ok() const { return !errors_.first.has_value(); }

 private:
  void FailKind(std::string_view name, const char* expected, const Json& found);

  const Json& object_;
  const std::string path_;
  FieldErrors& errors_;
};

// An integer of at least 0 and at most `max`, or nullopt. 3.0 is none: ids and counts have no point.
std::optional<uint64_t> AsUnsigned(const Json& json, uint64_t max);

}  // namespace kvern::server
