// JSON files of tests as chat values.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "kvern/chat.h"

namespace kvern {

inline ChatValue ToChatValue(const nlohmann::ordered_json& json) {
  if (json.is_boolean()) return json.get<bool>();
  if (json.is_number_integer()) return json.get<int64_t>();
  if (json.is_number()) return json.get<double>();
  if (json.is_string()) return json.get<std::string>();
  if (json.is_array()) {
    ChatValue::List list;
    for (const auto& element : json) list.push_back(ToChatValue(element));
    return list;
  }
  if (json.is_object()) {
    ChatValue::Map map;
    for (const auto& [key, value] : json.items()) map.push_back({key, ToChatValue(value)});
    return map;
  }
  return {};
}

}  // namespace kvern
