// Values as text, the way Python writes them: print, repr and json.dumps.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "kvern/status.h"
#include "tokenizer/chat_template/value.h"

namespace kvern::jinja {

// repr(float): the shortest digits that read back as `number`: "1.0", "1e+16", "inf".
std::string FloatText(double number);

// str(value): what {{ value }} prints. Stops early once `budget` is spent.
std::string PrintText(Budget& budget, const Value& value);
// repr(value): strings in quotes, as inside a printed list.
std::string ReprText(Budget& budget, const Value& value);

struct JsonStyle {
  bool escapes_non_ascii = false;
  bool sorts_keys = false;
  std::optional<std::string> indent;  // Of one level; without it all stands on one line.
  std::string item_separator = ", ";
  std::string key_separator = ": ";
};

// json.dumps(value). kInvalidArgument for what JSON has not, such as undefined values.
Result<std::string> JsonText(Budget& budget, const Value& value, const JsonStyle& style);

// HTML's & < > " ' as entities.
std::string Escaped(std::string_view text);

}  // namespace kvern::jinja
