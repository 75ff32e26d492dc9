// Operators: comparisons, containment, numbers, and + and * of sequences.
#include <algorithm>
#include <cmath>
#include <limits>

#include "tokenizer/chat_template/characters.h"
#include "tokenizer/chat_template/operations.h"
#include "tokenizer/chat_template/python_text.h"
#include "tokenizer/chat_template/text.h"

namespace kvern::jinja {
namespace {

Status Mismatch(std::string_view what, const Value& a, const Value& b) {
  for (const Value* value : {&a, &b}) {
    if (value->is_undefined()) return Status::InvalidArgument(std::string(value->reason()));
  }
  return Status::InvalidArgument("cannot " + std::string(what) + " " + std::string(KindName(a)) + " and " +
                                 std::string(KindName(b)));
}

Status Overflow() { return Status::InvalidArgument("an integer does not fit 64 bits"); }

// -1, 0 or 1 as `a` is less than, equal to or greater than `b`, of the exact numbers.
int CompareExactly(int64_t a, double b) {
  if (b >= 0x1p63) return -1;
  if (b < -0x1p63) return 1;
  const auto whole = static_cast<int64_t>(b);
  if (a != whole) return a < whole ? -1 : 1;
  const double fraction = b - static_cast<double>(whole);
  return fraction > 0 ? -1 : fraction < 0 ? 1 : 0;
}

bool EqualNumbers(const Value& a, const Value& b) {
  if (a.is_integral() == b.is_integral())
    return a.is_integral() ? a.integer() == b.integer() : a.number() == b.number();
  if (!a.is_integral()) return EqualNumbers(b, a);
  return !std::isnan(b.number()) && CompareExactly(a.integer(), b.number()) == 0;
}

bool LessNumbers(const Value& a, const Value& b) {
  if (a.is_integral() == b.is_integral()) return a.is_integral() ? a.integer() < b.integer() : a.number() < b.number();
  if (std::isnan(a.number()) || std::isnan(b.number())) return false;
  return a.is_integral() ? CompareExactly(a.integer(), b.number()) < 0 : CompareExactly(b.integer(), a.number()) > 0;
}

bool EqualDicts(Budget& budget, const DictObject& a, const DictObject& b) {
  if (a.entries.size() != b.entries.size()) return false;
  return std::all_of(a.entries.begin(), a.entries.end(), [&](const auto& entry) {
    const Value* other = FindKey(budget, b, entry.first);
    return other != nullptr && Equal(budget, entry.second, *other);
  });
}

// Python's // and %: the quotient is rounded down, the remainder has the sign of the divisor.
Result<Value> DivideIntegers(Operator op, int64_t a, int64_t b) {
  if (b == 0) return Status::InvalidArgument("division by zero");
  if (op == Operator::kDivide) return Value::Float(static_cast<double>(a) / static_cast<double>(b));
  if (b == -1) {  // The one quotient that may not fit.
    if (op == Operator::kModulo) return Value::Int(0);
    if (a == std::numeric_limits<int64_t>::min()) return Overflow();
    return Value::Int(-a);
  }
  int64_t quotient = a / b;
  int64_t remainder = a % b;
  if (remainder != 0 && (remainder < 0) != (b < 0)) {
    remainder += b;
    --quotient;
  }
  return Value::Int(op == Operator::kModulo ? remainder : quotient);
}

Result<Value> PowerOfIntegers(int64_t base, int64_t exponent) {
  if (exponent < 0) {
    if (base == 0) return Status::InvalidArgument("0 cannot be raised to a negative power");
    return Value::Float(std::pow(static_cast<double>(base), static_cast<double>(exponent)));
  }
  int64_t result = 1;
  for (;;) {
    if ((exponent & 1) != 0 && __builtin_mul_overflow(result, base, &result)) return Overflow();
    exponent >>= 1;
    if (exponent == 0) return Value::Int(result);
    if (__builtin_mul_overflow(base, base, &base)) return Overflow();
  }
}

Result<Value> IntegerArithmetic(Operator op, int64_t a, int64_t b) {
  int64_t result = 0;
  switch (op) {
    case Operator::kAdd:
      if (__builtin_add_overflow(a, b, &result)) return Overflow();
      return Value::Int(result);
    case Operator::kSubtract:
      if (__builtin_sub_overflow(a, b, &result)) return Overflow();
      return Value::Int(result);
    case Operator::kMultiply:
      if (__builtin_mul_overflow(a, b, &result)) return Overflow();
      return Value::Int(result);
    case Operator::kPower: return PowerOfIntegers(a, b);
    default: return DivideIntegers(op, a, b);
  }
}

Result<Value> FloatArithmetic(Operator op, double a, double b) {
  switch (op) {
    case Operator::kAdd: return Value::Float(a + b);
    case Operator::kSubtract: return Value::Float(a - b);
    case Operator::kMultiply: return Value::Float(a * b);
    case Operator::kPower: {
      if (a == 0 && b < 0) return Status::InvalidArgument("0 cannot be raised to a negative power");
      const double power = std::pow(a, b);
      if (std::isnan(power) && !std::isnan(a) && !std::isnan(b)) {
        return Status::InvalidArgument("a negative number cannot be raised to a fraction");
      }
      if (std::isinf(power) && std::isfinite(a) && std::isfinite(b)) {
        return Status::InvalidArgument("a power does not fit a double");
      }
      return Value::Float(power);
    }
    default: break;
  }
  if (b == 0) return Status::InvalidArgument("division by zero");
  if (op == Operator::kDivide) return Value::Float(a / b);
  double remainder = std::fmod(a, b);
  if (remainder != 0 && (remainder < 0) != (b < 0)) remainder += b;
  if (remainder == 0) remainder = std::copysign(0.0, b);
  if (op == Operator::kModulo) return Value::Float(remainder);
  // Source: float_divmod of CPython.
  const double quotient = (a - remainder) / b;
  if (quotient == 0) return Value::Float(std::copysign(0.0, a / b));
  const double floored = std::floor(quotient);
  return Value::Float(quotient - floored > 0.5 ? floored + 1 : floored);
}

Value ConcatTexts(Runtime& runtime, const Value& a, const Value& b) {
  if (!a.is_markup() && !b.is_markup()) {
    std::string text;
    text.reserve(a.text().size() + b.text().size());
    (text += a.text()) += b.text();
    return runtime.Text(std::move(text));
  }
  const auto escaped = [](const Value& v) { return v.is_markup() ? std::string(v.text()) : Escaped(v.text()); };
  return runtime.Text(escaped(a) + escaped(b), /*is_markup=*/true);
}

Result<Value> Repeat(Runtime& runtime, const Value& sequence, int64_t count) {
  const uint64_t times = count < 0 ? 0 : static_cast<uint64_t>(count);
  const uint64_t unit = sequence.is_string() ? sequence.text().size() + 1 : sequence.extent().num_bytes + sizeof(Value);
  constexpr uint64_t kMax = std::numeric_limits<uint64_t>::max();
  if (!runtime.budget().Fits(times > kMax / unit ? kMax : times * unit)) return runtime.budget().status();
  if (sequence.is_string()) {
    std::string text;
    text.reserve(sequence.text().size() * times);
    if (!sequence.text().empty()) {
      for (uint64_t i = 0; i < times; ++i) text += sequence.text();
    }
    return runtime.Text(std::move(text), sequence.is_markup());
  }
  std::vector<Value> elements;
  if (!sequence.elements().empty()) {
    for (uint64_t i = 0; i < times; ++i) {
      elements.insert(elements.end(), sequence.elements().begin(), sequence.elements().end());
    }
  }
  return Value::List(&runtime.budget(), std::move(elements), sequence.kind());
}

bool CanRepeat(const Value& value) { return value.is_string() || value.is(Kind::kList) || value.is(Kind::kTuple); }

// + and * where an operand is no number.
Result<Value> SequenceArithmetic(Runtime& runtime, Operator op, const Value& a, const Value& b) {
  if (op == Operator::kAdd && a.is_string() && b.is_string()) return ConcatTexts(runtime, a, b);
  if (op == Operator::kAdd && a.kind() == b.kind() && (a.is(Kind::kList) || a.is(Kind::kTuple))) {
    std::vector<Value> elements = a.elements();
    elements.insert(elements.end(), b.elements().begin(), b.elements().end());
    return Value::List(&runtime.budget(), std::move(elements), a.kind());
  }
  if (op == Operator::kMultiply && CanRepeat(a) && b.is_integral()) return Repeat(runtime, a, b.integer());
  if (op == Operator::kMultiply && CanRepeat(b) && a.is_integral()) return Repeat(runtime, b, a.integer());
  if (op == Operator::kAdd) return Mismatch("add", a, b);
  return Mismatch("calculate with", a, b);
}

}  // namespace

const Value* FindKey(Budget& budget, const DictObject& dict, const Value& key) {
  budget.Touch(key.extent().num_bytes);
  return dict.Find(key);
}

bool Equal(Budget& budget, const Value& a, const Value& b) {
  budget.Step();
  if (budget.is_spent()) return false;
  if (a.is_number() && b.is_number()) return EqualNumbers(a, b);
  if (a.kind() != b.kind()) return false;
  switch (a.kind()) {
    case Kind::kUndefined:
    case Kind::kNone: return true;
    case Kind::kString: budget.Touch(std::min(a.text().size(), b.text().size())); return a.text() == b.text();
    case Kind::kList:
    case Kind::kTuple:
    case Kind::kRange:
      return std::equal(a.elements().begin(), a.elements().end(), b.elements().begin(), b.elements().end(),
                        [&budget](const Value& x, const Value& y) { return Equal(budget, x, y); });
    case Kind::kDict: return a.identity() == b.identity() || EqualDicts(budget, a.dict(), b.dict());
    default: return a.identity() == b.identity();
  }
}

Result<bool> Less(Budget& budget, const Value& a, const Value& b) {
  budget.Step();
  if (budget.is_spent()) return budget.status();
  if (a.is_number() && b.is_number()) return LessNumbers(a, b);
  if (a.is_string() && b.is_string()) {
    budget.Touch(std::min(a.text().size(), b.text().size()));
    return a.text() < b.text();
  }
  if (a.kind() == b.kind() && (a.is(Kind::kList) || a.is(Kind::kTuple))) {
    const size_t common = std::min(a.elements().size(), b.elements().size());
    for (size_t i = 0; i < common; ++i) {
      if (!Equal(budget, a.elements()[i], b.elements()[i])) return Less(budget, a.elements()[i], b.elements()[i]);
    }
    return a.elements().size() < b.elements().size();
  }
  return Mismatch("order", a, b);
}

Result<bool> Contains(Runtime& runtime, const Value& container, const Value& item) {
  if (container.is_string()) {
    if (!item.is_string()) return Mismatch("look in a string for what is no string:", item, container);
    KVERN_RETURN_IF_ERROR(AllowSearch(runtime, container.text(), item.text()));
    return container.text().find(item.text()) != std::string_view::npos;
  }
  if (container.is_dict()) {
    if (!IsHashable(item)) return Status::InvalidArgument(std::string(KindName(item)) + " cannot be a key of a map");
    return FindKey(runtime.budget(), container.dict(), item) != nullptr;
  }
  KVERN_ASSIGN_OR_RETURN(const Value list, Elements(runtime, container));
  return std::any_of(list.elements().begin(), list.elements().end(),
                     [&](const Value& element) { return Equal(runtime.budget(), element, item); });
}

Result<bool> Compare(Runtime& runtime, Operator op, const Value& a, const Value& b) {
  Budget& budget = runtime.budget();
  switch (op) {
    case Operator::kEqual: return Equal(budget, a, b);
    case Operator::kNotEqual: return !Equal(budget, a, b);
    case Operator::kLess: return Less(budget, a, b);
    case Operator::kGreater: return Less(budget, b, a);
    case Operator::kIn:
    case Operator::kNotIn: {
      budget.Touch(b.own_bytes());
      KVERN_ASSIGN_OR_RETURN(const bool is_in, Contains(runtime, b, a));
      return is_in == (op == Operator::kIn);
    }
    default: {
      // Not a < b instead would be wrong for NaN.
      if (a.is_number() && b.is_number() && EqualNumbers(a, b)) return true;
      if (!a.is_number() && Equal(budget, a, b) && (a.is_string() || a.is(Kind::kList) || a.is(Kind::kTuple)))
        return true;
      return op == Operator::kLessEqual ? Less(budget, a, b) : Less(budget, b, a);
    }
  }
}

Result<Value> Arithmetic(Runtime& runtime, Operator op, const Value& a, const Value& b) {
  if (a.is_integral() && b.is_integral()) return IntegerArithmetic(op, a.integer(), b.integer());
  if (a.is_number() && b.is_number()) return FloatArithmetic(op, a.number(), b.number());
  if (op == Operator::kModulo && a.is_string()) return FormatPercent(runtime, a, b);
  return SequenceArithmetic(runtime, op, a, b);
}

Result<Value> Negative(Operator sign, const Value& a) {
  if (a.is_undefined()) return Status::InvalidArgument(std::string(a.reason()));
  if (!a.is_number()) return Status::InvalidArgument("a sign stands before " + std::string(KindName(a)));
  if (a.is(Kind::kFloat)) return Value::Float(sign == Operator::kNegate ? -a.number() : a.number());
  if (sign == Operator::kPlus) return Value::Int(a.integer());
  if (a.integer() == std::numeric_limits<int64_t>::min()) return Overflow();
  return Value::Int(-a.integer());
}

}  // namespace kvern::jinja
