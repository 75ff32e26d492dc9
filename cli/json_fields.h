// Fields of JSON that another program sent, whatever it may be.
#pragma once

#include <cstdint>
#include <string>

#include "server/json.h"

namespace kvern::cli {

// Null where `json` is no object, has no such field, or has null there.
const server::Json* FindField(const server::Json& json, const char* name);

// 0 where the field is missing or no count.
uint64_t CountOf(const server::Json& json, const char* name);

// "" where `json` is null or no string.
std::string StringOf(const server::Json* json);

}  // namespace kvern::cli
