#include "cli/json_fields.h"

namespace kvern::cli {

using server::Json;

const Json* FindField(const Json& json, const char* name) {
  if (!json.is_object()) return nullptr;
  const auto found = json.find(name);
  return found == json.end() || found->is_null() ? nullptr : &*found;
}

uint64_t CountOf(const Json& json, const char* name) {
  const Json* const field = FindField(json, name);
  return field != nullptr && field->is_number_unsigned() ? field->get<uint64_t>() : 0;
}

std::string StringOf(const Json* json) {
  return json != nullptr && json->is_string() ? json->get<std::string>() : std::string();
}

}  // namespace kvern::cli
