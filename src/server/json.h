// JSON as it comes from clients and goes to them. The only place where the exceptions of the library are caught.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "kvern/status.h"

namespace kvern::server {

using Json = nlohmann::ordered_json;  // Clients see fields in the order in which they were set.

// Limits that hold before anything is built from the text: memory and time stay proportional to its length.
inline constexpr size_t kMaxJsonDepth = 64;
inline constexpr size_t kMaxJsonValues = 1u << 20;
inline constexpr size_t kMaxJsonKeys = 1024;  // Of one object: finding a key is a walk over them.

// kInvalidArgument says what is wrong and where: no JSON, ill-formed UTF-8, a number out of range, or a limit.
Result<Json> ParseJson(std::string_view text);

// On one line. Ill-formed UTF-8 becomes U+FFFD and numbers that are not finite null: it never fails for the content.
std::string DumpJson(const Json& json);

// Adds a member to the object that `text` ends with; `value` is JSON text too. For what is too large to be built as a
// tree and written in one go.
void AppendMember(std::string& text, std::string_view name, std::string_view value);

// At most so many bytes of `text`, with "..." where that is not all of it.
std::string ShortText(std::string_view text, size_t max_bytes = 200);
// What a client sent, as messages show it: they would otherwise be as long as the request.
std::string ShowJson(const Json& json);

}  // namespace kvern::server
