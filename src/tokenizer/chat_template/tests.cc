// The tests of "value is name(arguments)".
#include <cmath>

#include "tokenizer/chat_template/builtins.h"
#include "tokenizer/chat_template/characters.h"
#include "tokenizer/chat_template/operations.h"

namespace kvern::jinja {
namespace {

template <Kind kKind>
Result<Value> IsKind(Runtime&, const Value& self, const BoundArguments&) {
  return Value::Bool(self.is(kKind));
}

template <Operator kOperator>
Result<Value> Compares(Runtime& runtime, const Value& self, const BoundArguments& arguments) {
  KVERN_ASSIGN_OR_RETURN(const bool result, Compare(runtime, kOperator, self, *arguments[0]));
  return Value::Bool(result);
}

Result<Value> IsDefined(Runtime&, const Value& self, const BoundArguments&) {
  return Value::Bool(!self.is_undefined());
}
Result<Value> IsNumber(Runtime&, const Value& self, const BoundArguments&) { return Value::Bool(self.is_number()); }
Result<Value> IsIterableTest(Runtime&, const Value& self, const BoundArguments&) {
  return Value::Bool(IsIterable(self));
}
Result<Value> IsEscaped(Runtime&, const Value& self, const BoundArguments&) { return Value::Bool(self.is_markup()); }

Result<Value> IsTrueTest(Runtime&, const Value& self, const BoundArguments&) {
  return Value::Bool(self.is(Kind::kBool) && self.integer() != 0);
}

Result<Value> IsFalseTest(Runtime&, const Value& self, const BoundArguments&) {
  return Value::Bool(self.is(Kind::kBool) && self.integer() == 0);
}

Result<Value> IsSequence(Runtime&, const Value& self, const BoundArguments&) {
  return Value::Bool(self.is_sequence() || self.is_string() || self.is_dict() || self.is_undefined());
}

Result<Value> IsCallable(Runtime&, const Value& self, const BoundArguments&) {
  return Value::Bool(self.is(Kind::kMacro) || self.is(Kind::kFunction) || self.is(Kind::kMethod) ||
                     self.is(Kind::kLoop) || self.is_undefined());
}

Result<Value> IsSame(Runtime& runtime, const Value& self, const BoundArguments& arguments) {
  const Value& other = *arguments[0];
  if (self.kind() != other.kind()) return Value::Bool(false);
  if (self.identity() != nullptr && !self.is_string()) return Value::Bool(self.identity() == other.identity());
  return Value::Bool(Equal(runtime.budget(), self, other));
}

Result<Value> Divides(Runtime& runtime, const Value& self, const Value& by) {
  KVERN_ASSIGN_OR_RETURN(const Value remainder, Arithmetic(runtime, Operator::kModulo, self, by));
  return Value::Bool(remainder.is_number() && remainder.number() == 0);
}

Result<Value> IsEven(Runtime& runtime, const Value& self, const BoundArguments&) {
  return Divides(runtime, self, Value::Int(2));
}

Result<Value> IsOdd(Runtime& runtime, const Value& self, const BoundArguments&) {
  KVERN_ASSIGN_OR_RETURN(const Value remainder, Arithmetic(runtime, Operator::kModulo, self, Value::Int(2)));
  return Value::Bool(remainder.is_number() && remainder.number() == 1);
}

Result<Value> IsDivisible(Runtime& runtime, const Value& self, const BoundArguments& arguments) {
  return Divides(runtime, self, *arguments[0]);
}

// Python's islower and isupper: at least one letter has a case, and none has the other.
Value HasOnlyCase(Runtime& runtime, std::string_view text, CharacterClass wanted, CharacterClass other) {
  runtime.budget().TouchCharacters(text.size());
  bool has_wanted = false;
  for (; !text.empty(); text.remove_prefix(FirstCharacter(text).bytes.size())) {
    const char32_t code = FirstCharacter(text).code;
    if (IsOf(other, code)) return Value::Bool(false);
    has_wanted |= IsOf(wanted, code);
  }
  return Value::Bool(has_wanted);
}

Result<Value> IsLower(Runtime& runtime, const Value& self, const BoundArguments&) {
  return HasOnlyCase(runtime, TextOf(runtime, self), CharacterClass::kLower, CharacterClass::kUpper);
}

Result<Value> IsUpper(Runtime& runtime, const Value& self, const BoundArguments&) {
  return HasOnlyCase(runtime, TextOf(runtime, self), CharacterClass::kUpper, CharacterClass::kLower);
}

Result<Value> IsFilterName(Runtime&, const Value& self, const BoundArguments&) {
  return Value::Bool(self.is_string() && FindFilter(self.text()) != nullptr);
}

Result<Value> IsTestName(Runtime&, const Value& self, const BoundArguments&) {
  return Value::Bool(self.is_string() && FindTest(self.text()) != nullptr);
}

constexpr Builtin kTests[] = {
    {"!=", "other", Compares<Operator::kNotEqual>},
    {"<", "other", Compares<Operator::kLess>},
    {"<=", "other", Compares<Operator::kLessEqual>},
    {"==", "other", Compares<Operator::kEqual>},
    {">", "other", Compares<Operator::kGreater>},
    {">=", "other", Compares<Operator::kGreaterEqual>},
    {"boolean", "", IsKind<Kind::kBool>},
    {"callable", "", IsCallable},
    {"defined", "", IsDefined},
    {"divisibleby", "num", IsDivisible},
    {"eq", "other", Compares<Operator::kEqual>},
    {"equalto", "other", Compares<Operator::kEqual>},
    {"escaped", "", IsEscaped},
    {"even", "", IsEven},
    {"false", "", IsFalseTest},
    {"filter", "", IsFilterName},
    {"float", "", IsKind<Kind::kFloat>},
    {"ge", "other", Compares<Operator::kGreaterEqual>},
    {"greaterthan", "other", Compares<Operator::kGreater>},
    {"gt", "other", Compares<Operator::kGreater>},
    {"in", "seq", Compares<Operator::kIn>},
    {"integer", "", IsKind<Kind::kInt>},
    {"iterable", "", IsIterableTest},
    {"le", "other", Compares<Operator::kLessEqual>},
    {"lessthan", "other", Compares<Operator::kLess>},
    {"lower", "", IsLower},
    {"lt", "other", Compares<Operator::kLess>},
    {"mapping", "", IsKind<Kind::kDict>},
    {"ne", "other", Compares<Operator::kNotEqual>},
    {"none", "", IsKind<Kind::kNone>},
    {"number", "", IsNumber},
    {"odd", "", IsOdd},
    {"sameas", "other", IsSame},
    {"sequence", "", IsSequence},
    {"string", "", IsKind<Kind::kString>},
    {"test", "", IsTestName},
    {"true", "", IsTrueTest},
    {"undefined", "", IsKind<Kind::kUndefined>},
    {"upper", "", IsUpper},
};

}  // namespace

const Builtin* FindTest(std::string_view name) {
  for (const Builtin& builtin : kTests) {
    if (builtin.name == name) return &builtin;
  }
  return nullptr;
}

}  // namespace kvern::jinja
