#include "server/json.h"

#include <array>

namespace kvern::server {
namespace {

// Walks over the text without understanding it: brackets, commas and strings are enough to bound what a parser would
// build. What is no JSON is left to the parser.
Status CheckShape(std::string_view text) {
  std::array<size_t, kMaxJsonDepth> num_keys = {};  // Of the open objects and arrays; of arrays it does not matter.
  size_t depth = 0;
  size_t num_values = 1;
  bool is_in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (is_in_string) {
      if (c == '\\') ++i;
      if (c == '"') is_in_string = false;
      continue;
    }
    switch (c) {
      case '"': is_in_string = true; break;
      case '{':
      case '[':
        if (depth == kMaxJsonDepth) {
          return Status::InvalidArgument("is nested deeper than " + std::to_string(kMaxJsonDepth) + " levels at byte " +
                                         std::to_string(i));
        }
        num_keys[depth++] = 0;
        ++num_values;
        break;
      case '}':
      case ']':
        if (depth > 0) --depth;
        break;
      case ':':
        if (depth > 0 && ++num_keys[depth - 1] > kMaxJsonKeys) {
          return Status::InvalidArgument("has an object with more than " + std::to_string(kMaxJsonKeys) +
                                         " keys at byte " + std::to_string(i));
        }
        break;
      case ',': ++num_values; break;
      default: break;
    }
    if (num_values > kMaxJsonValues) {
      return Status::InvalidArgument("holds more than " + std::to_string(kMaxJsonValues) + " values");
    }
  }
  return Status::Ok();
}

// "[json.exception.parse_error.101] parse error at line 1, column 2: ...; last read: '"my secret'" without the part in
// brackets and without the client's text: errors go to the log, and prompts do not.
std::string Reason(const std::exception& error) {
  std::string_view what = error.what();
  const size_t end = what.starts_with('[') ? what.find("] ") : std::string_view::npos;
  if (end != std::string_view::npos) what.remove_prefix(end + 2);
  return ShortText(what.substr(0, what.find("; last read: ")));
}

}  // namespace

Result<Json> ParseJson(std::string_view text) {
  KVERN_RETURN_IF_ERROR(CheckShape(text));
  try {
    return Json::parse(text.begin(), text.end());
  } catch (const std::exception& error) {
    return Status::InvalidArgument("is no JSON: " + Reason(error));
  }
}

std::string DumpJson(const Json& json) {
  return json.dump(-1, ' ', /*ensure_ascii=*/false, Json::error_handler_t::replace);
}

void AppendMember(std::string& text, std::string_view name, std::string_view value) {
  text.pop_back();
  if (text.back() != '{') text += ',';
  text += '"';
  text += name;
  text += "\":";
  text += value;
  text += '}';
}

std::string ShortText(std::string_view text, size_t max_bytes) {
  if (text.size() <= max_bytes) return std::string(text);
  while (max_bytes > 0 && (static_cast<uint8_t>(text[max_bytes]) & 0xC0) == 0x80) --max_bytes;  // Not in a character.
  return std::string(text.substr(0, max_bytes)) + "...";
}

std::string ShowJson(const Json& json) { return ShortText(DumpJson(json)); }

}  // namespace kvern::server
