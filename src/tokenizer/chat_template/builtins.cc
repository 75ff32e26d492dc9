#include "tokenizer/chat_template/builtins.h"

#include "tokenizer/chat_template/operations.h"
#include "tokenizer/chat_template/python_text.h"
#include "tokenizer/quoted.h"

namespace kvern::jinja {
namespace {

// Calls `visit` with the index and name of each parameter and whether it may be left out.
template <typename Visit>
void ForEachParameter(std::string_view parameters, const Visit& visit) {
  for (size_t i = 0; !parameters.empty(); ++i) {
    const size_t end = std::min(parameters.find(' '), parameters.size());
    std::string_view name = parameters.substr(0, end);
    const bool is_optional = name.ends_with('=');
    if (is_optional) name.remove_suffix(1);
    visit(i, name, is_optional);
    parameters.remove_prefix(std::min(end + 1, parameters.size()));
  }
}

Status Bind(const Builtin& builtin, const Arguments& arguments,
            std::array<const Value*, BoundArguments::kMaxParameters>& values) {
  size_t num_parameters = 0;
  std::vector<bool> is_known(arguments.named.size());
  std::string missing;
  std::string twice;
  ForEachParameter(builtin.parameters, [&](size_t i, std::string_view name, bool is_optional) {
    num_parameters = i + 1;
    if (i < arguments.positional.size()) values[i] = &arguments.positional[i];
    for (size_t j = 0; j < arguments.named.size(); ++j) {
      if (arguments.named[j].first != name) continue;
      is_known[j] = true;
      if (values[i] != nullptr) twice = name;
      values[i] = &arguments.named[j].second;
    }
    if (values[i] == nullptr && !is_optional && missing.empty()) missing = name;
  });
  const std::string of = " of " + Quoted(builtin.name);
  if (arguments.positional.size() > num_parameters) {
    return Status::InvalidArgument(Quoted(builtin.name) + " takes at most " + std::to_string(num_parameters) +
                                   " arguments, found " + std::to_string(arguments.positional.size()));
  }
  for (size_t j = 0; j < is_known.size(); ++j) {
    if (!is_known[j]) return Status::InvalidArgument("there is no argument " + Quoted(arguments.named[j].first) + of);
  }
  if (!missing.empty()) return Status::InvalidArgument("the argument " + Quoted(missing) + of + " is missing");
  if (!twice.empty()) return Status::InvalidArgument("the argument " + Quoted(twice) + of + " is given twice");
  return Status::Ok();
}

}  // namespace

Result<int64_t> BoundArguments::Integer(size_t i, int64_t otherwise, std::string_view what) const {
  if (values_[i] == nullptr || values_[i]->is_none()) return otherwise;
  return IntegerArgument(*values_[i], what);
}

Result<Value> RunBuiltin(Runtime& runtime, const Builtin& builtin, const Value& self, const Arguments& arguments) {
  BoundArguments bound;
  bound.all_ = &arguments;
  if (builtin.parameters != "*") KVERN_RETURN_IF_ERROR(Bind(builtin, arguments, bound.values_));
  Budget& budget = runtime.budget();
  budget.Step();
  const auto touch_text = [&budget](const Value& value) {
    if (value.is_string()) budget.Touch(value.text().size());
  };
  touch_text(self);
  for (const Value& value : arguments.positional) touch_text(value);
  for (const auto& [name, value] : arguments.named) touch_text(value);
  if (budget.is_spent()) return budget.status();
  return builtin.run(runtime, self, bound);
}

std::string TextOf(Runtime& runtime, const Value& value) { return PrintText(runtime.budget(), value); }

}  // namespace kvern::jinja
