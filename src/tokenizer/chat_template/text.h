// What filters and methods do with text alike. Results whose size a template chooses are checked against the budget
// first.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "kvern/status.h"
#include "tokenizer/chat_template/runtime.h"

namespace kvern::jinja {

// Counts the work of looking for `part` in `text`, at worst size by size; asked before it is done.
Status AllowSearch(Runtime& runtime, std::string_view text, std::string_view part);

// Python's str.replace; `count` < 0: all.
Result<std::string> Replaced(Runtime& runtime, std::string_view text, std::string_view old, std::string_view with,
                             int64_t count);

// Python's str.splitlines.
std::vector<std::string_view> Lines(std::string_view text, bool keeps_ends);

// Python's str.split and rsplit: at `separator`, or at white space where it is empty; at most `max_splits` times from
// the chosen end (< 0: all).
std::vector<std::string_view> Split(std::string_view text, std::string_view separator, int64_t max_splits,
                                    bool from_end);

// Which side gets the padding.
enum class Side { kLeft, kRight, kBoth };
// `text` with as many `fill` (one character) as it takes to reach `width` characters.
Result<std::string> Padded(Runtime& runtime, std::string text, int64_t width, std::string_view fill, Side side);

// What Jinja calls an attribute: "a.b.0" goes from member to member, an integer is an index. `otherwise`, where given,
// takes the place of each member that is not there.
Result<Value> MemberByPath(Runtime& runtime, const Value& object, const Value& path, const Value* otherwise = nullptr);

}  // namespace kvern::jinja
