// The methods of maps, lists and loops, and the lookup of all methods. Like Jinja's immutable sandbox it has none that
// would change a map or a list.
#include "tokenizer/chat_template/methods.h"

#include <algorithm>

#include "tokenizer/chat_template/operations.h"

namespace kvern::jinja {
namespace {

Result<Value> Get(Runtime& runtime, const Value& self, const BoundArguments& arguments) {
  if (!IsHashable(*arguments[0])) {
    return Status::InvalidArgument(std::string(KindName(*arguments[0])) + " cannot be a key of a map");
  }
  const Value* const member = FindKey(runtime.budget(), self.dict(), *arguments[0]);
  if (member != nullptr) return *member;
  return arguments[1] == nullptr ? Value::None() : *arguments[1];
}

Result<Value> Items(Runtime& runtime, const Value& self, const BoundArguments&) {
  std::vector<Value> items;
  for (const auto& [key, value] : self.dict().entries) items.push_back(runtime.Tuple({key, value}));
  return Value::View(&runtime.budget(), std::move(items), "dict_items");
}

Result<Value> Keys(Runtime& runtime, const Value& self, const BoundArguments&) {
  std::vector<Value> keys;
  for (const auto& [key, value] : self.dict().entries) keys.push_back(key);
  return Value::View(&runtime.budget(), std::move(keys), "dict_keys");
}

Result<Value> Values(Runtime& runtime, const Value& self, const BoundArguments&) {
  std::vector<Value> values;
  for (const auto& [key, value] : self.dict().entries) values.push_back(value);
  return Value::View(&runtime.budget(), std::move(values), "dict_values");
}

Result<Value> Copy(Runtime&, const Value& self, const BoundArguments&) { return self; }

Result<Value> IndexOf(Runtime& runtime, const Value& self, const BoundArguments& arguments) {
  for (size_t i = 0; i < self.elements().size(); ++i) {
    if (Equal(runtime.budget(), self.elements()[i], *arguments[0])) return Value::Int(static_cast<int64_t>(i));
  }
  return Status::InvalidArgument("index does not find its argument in the list");
}

Result<Value> CountOf(Runtime& runtime, const Value& self, const BoundArguments& arguments) {
  return Value::Int(std::count_if(self.elements().begin(), self.elements().end(), [&](const Value& element) {
    return Equal(runtime.budget(), element, *arguments[0]);
  }));
}

Result<Value> Cycle(Runtime&, const Value& self, const BoundArguments& arguments) {
  const std::vector<Value>& values = arguments.all().positional;
  if (values.empty()) return Status::InvalidArgument("loop.cycle needs values to choose from");
  return values[self.as<LoopObject>().index % values.size()];
}

Result<Value> HasChanged(Runtime& runtime, const Value& self, const BoundArguments& arguments) {
  auto& loop = self.as<LoopObject>();
  const std::vector<Value>& values = arguments.all().positional;
  const bool is_same = loop.has_changed_before &&
                       std::equal(values.begin(), values.end(), loop.last_changed.begin(), loop.last_changed.end(),
                                  [&](const Value& a, const Value& b) { return Equal(runtime.budget(), a, b); });
  loop.has_changed_before = true;
  loop.last_changed = values;
  return Value::Bool(!is_same);
}

constexpr Builtin kDictMethods[] = {
    {"get", "key default=", Get}, {"items", "", Items}, {"keys", "", Keys}, {"values", "", Values}, {"copy", "", Copy},
};
constexpr Builtin kListMethods[] = {{"index", "value", IndexOf}, {"count", "value", CountOf}, {"copy", "", Copy}};
constexpr Builtin kTupleMethods[] = {{"index", "value", IndexOf}, {"count", "value", CountOf}};
constexpr Builtin kLoopMethods[] = {{"cycle", "*", Cycle}, {"changed", "*", HasChanged}};

std::span<const Builtin> MethodsOf(Kind kind) {
  switch (kind) {
    case Kind::kString: return StringMethods();
    case Kind::kDict: return kDictMethods;
    case Kind::kList: return kListMethods;
    case Kind::kTuple:
    case Kind::kRange: return kTupleMethods;
    case Kind::kLoop: return kLoopMethods;
    default: return {};
  }
}

constexpr std::string_view kDictChanges[] = {"clear", "pop", "popitem", "setdefault", "update"};
constexpr std::string_view kListChanges[] = {"append", "clear", "extend", "insert", "pop", "remove", "reverse", "sort"};
constexpr std::string_view kOtherDictMethods[] = {"fromkeys"};
constexpr std::string_view kOtherStringMethods[] = {"encode",  "expandtabs",   "format_map",
                                                    "isascii", "isidentifier", "isprintable",
                                                    "istitle", "maketrans",    "translate"};

bool Has(std::span<const std::string_view> names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

}  // namespace

const Builtin* FindMethod(Kind kind, std::string_view name) {
  for (const Builtin& builtin : MethodsOf(kind)) {
    if (builtin.name == name) return &builtin;
  }
  return nullptr;
}

bool IsMissingMethod(Kind kind, std::string_view name, bool& changes) {
  changes = (kind == Kind::kDict && Has(kDictChanges, name)) || (kind == Kind::kList && Has(kListChanges, name));
  return changes || (kind == Kind::kDict && Has(kOtherDictMethods, name)) ||
         (kind == Kind::kString && Has(kOtherStringMethods, name));
}

}  // namespace kvern::jinja
