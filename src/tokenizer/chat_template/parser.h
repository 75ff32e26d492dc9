// Parses a template.
#pragma once

#include <string_view>

#include "kvern/status.h"
#include "tokenizer/chat_template/ast.h"

namespace kvern::jinja {

// Symbols that every template has, so that the interpreter need not look them up.
constexpr Symbol kLoopSymbol = 0;
constexpr Symbol kCallerSymbol = 1;
constexpr Symbol kVarargsSymbol = 2;
constexpr Symbol kKwargsSymbol = 3;

// kCorruption for text that is no template, kUnsupported for statements that kvern does not have, kResourceExhausted
// where it nests too deeply; messages begin with line and column. `source` is shorter than 4 GiB.
Result<Template> ParseTemplate(std::string_view source);

}  // namespace kvern::jinja
