// The tables of filters by what they work on; builtins.h looks names up in all of them.
#pragma once

#include <span>

#include "tokenizer/chat_template/builtins.h"

namespace kvern::jinja {

std::span<const Builtin> TextFilters();
std::span<const Builtin> SequenceFilters();
std::span<const Builtin> SelectionFilters();
std::span<const Builtin> NumberFilters();

}  // namespace kvern::jinja
