// The tables of methods by the kind of their object; FindMethod of builtins.h looks names up in them.
#pragma once

#include <span>

#include "tokenizer/chat_template/builtins.h"

namespace kvern::jinja {

std::span<const Builtin> StringMethods();

}  // namespace kvern::jinja
