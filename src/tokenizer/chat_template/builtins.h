// The filters, tests, methods and functions that templates may use: tables of name, parameters and what runs.
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "kvern/status.h"
#include "tokenizer/chat_template/runtime.h"

namespace kvern::jinja {

// The arguments of a call as written.
struct Arguments {
  std::vector<Value> positional;
  std::vector<std::pair<std::string, Value>> named;
};

// The arguments of a call by parameter: [i] is null where parameter i was left out.
class BoundArguments {
 public:
  static constexpr size_t kMaxParameters = 4;
  const Value* operator[](size_t i) const { return values_[i]; }
  // All of them as written, for what takes any number.
  const Arguments& all() const { return *all_; }

  bool Flag(size_t i, bool otherwise) const { return values_[i] == nullptr ? otherwise : values_[i]->IsTrue(); }
  // None counts as left out.
  Result<int64_t> Integer(size_t i, int64_t otherwise, std::string_view what) const;

 private:
  friend Result<Value> RunBuiltin(Runtime&, const struct Builtin&, const Value&, const Arguments&);
  std::array<const Value*, kMaxParameters> values_{};
  const Arguments* all_ = nullptr;
};

struct Builtin {
  std::string_view name;
  std::string_view parameters;  // "old new count=": what ends in = may be left out. "*": takes any arguments.
  // `self`: the filtered or tested value, the object of a method; unused by functions.
  Result<Value> (*run)(Runtime& runtime, const Value& self, const BoundArguments& arguments);
};

// Binds the arguments and runs it. Counts the bytes of strings as work, those of `self` and of the arguments; what
// walks over elements counts these itself.
Result<Value> RunBuiltin(Runtime& runtime, const Builtin& builtin, const Value& self, const Arguments& arguments);

// nullptr where there is none of that name.
const Builtin* FindFilter(std::string_view name);
const Builtin* FindTest(std::string_view name);
const Builtin* FindFunction(std::string_view name);
const Builtin* FindMethod(Kind kind, std::string_view name);
// Whether Python has this method for that kind although kvern does not: because it would change the object (`changes`),
// or because it is not done.
bool IsMissingMethod(Kind kind, std::string_view name, bool& changes);

// obj.method as a value.
class MethodObject : public Object {
 public:
  MethodObject(Budget* budget, Value object, const Builtin& method)
      : Object(budget, sizeof(MethodObject)), self(std::move(object)), builtin(method) {}
  const Value self;
  const Builtin& builtin;
};

class FunctionObject : public Object {
 public:
  explicit FunctionObject(const Builtin& function) : Object(nullptr, 0), builtin(function) {}
  const Builtin& builtin;
};

// The text of a string, or what printing `value` gives.
std::string TextOf(Runtime& runtime, const Value& value);

}  // namespace kvern::jinja
