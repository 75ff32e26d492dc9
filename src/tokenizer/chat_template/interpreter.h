// Runs a parsed template.
#pragma once

#include <ctime>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "kvern/chat.h"
#include "kvern/status.h"
#include "tokenizer/chat_template/ast.h"

namespace kvern::jinja {

// A variable that the template is given. The value is borrowed for the call.
struct Variable {
  std::string_view name;
  std::variant<const ChatValue*, const ChatValue::List*> value;
};

// The text that `parsed` makes of `variables`; of equal names the last counts. Errors are those of
// ChatTemplate::Render.
Result<std::string> RenderTemplate(const Template& parsed, const std::vector<Variable>& variables, const std::tm& now,
                                   const ChatLimits& limits);

}  // namespace kvern::jinja
