// Filters that make numbers, and default.
#include <cctype>
#include <charconv>
#include <cmath>
#include <limits>
#include <optional>

#include "tokenizer/chat_template/characters.h"
#include "tokenizer/chat_template/filters.h"
#include "tokenizer/chat_template/operations.h"

namespace kvern::jinja {
namespace {

// Digits with single underscores between them, as Python's int and float allow; nullopt for any other use of "_".
std::optional<std::string> WithoutUnderscores(std::string_view text) {
  std::string digits;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '_') {
      digits += text[i];
    } else if (i == 0 || i + 1 == text.size() || !std::isalnum(static_cast<unsigned char>(text[i - 1])) ||
               !std::isalnum(static_cast<unsigned char>(text[i + 1]))) {
      return std::nullopt;
    }
  }
  return digits;
}

// Python's int(text, base).
std::optional<int64_t> ParseInteger(std::string_view text, int base) {
  text = StripEnd(StripStart(text));
  const bool is_negative = text.starts_with('-');
  if (is_negative || text.starts_with('+')) text.remove_prefix(1);
  const char letter = text.size() > 2 && text[0] == '0' ? static_cast<char>(text[1] | 0x20) : '\0';
  const int named_base = letter == 'x' ? 16 : letter == 'o' ? 8 : letter == 'b' ? 2 : 0;
  if (named_base != 0 && (base == named_base || base == 0)) {
    text.remove_prefix(2);
    base = named_base;
  } else if (base == 0) {
    base = 10;
  }
  const auto digits = WithoutUnderscores(text);
  if (!digits || digits->empty() || !std::isalnum(static_cast<unsigned char>((*digits)[0]))) return std::nullopt;
  int64_t value = 0;
  const std::string with_sign = (is_negative ? "-" : "") + *digits;
  const char* const end = with_sign.data() + with_sign.size();
  const auto [stop, error] = std::from_chars(with_sign.data(), end, value, base);
  if (error != std::errc() || stop != end) return std::nullopt;
  return value;
}

// Python's float(text).
std::optional<double> ParseFloat(std::string_view text) {
  text = StripEnd(StripStart(text));
  const bool is_negative = text.starts_with('-');
  if (is_negative || text.starts_with('+')) text.remove_prefix(1);
  const std::string lower = Lower(text.substr(0, 10));
  const double sign = is_negative ? -1.0 : 1.0;
  if (text.size() <= 10 && (lower == "inf" || lower == "infinity"))
    return sign * std::numeric_limits<double>::infinity();
  if (lower == "nan") return std::numeric_limits<double>::quiet_NaN();
  const auto digits = WithoutUnderscores(text);
  if (!digits || digits->empty() || !(std::isdigit(static_cast<unsigned char>((*digits)[0])) || (*digits)[0] == '.')) {
    return std::nullopt;
  }
  double value = 0;
  const char* const end = digits->data() + digits->size();
  const auto [stop, error] = std::from_chars(digits->data(), end, value);
  if (stop != end) return std::nullopt;
  if (error == std::errc::result_out_of_range) value = digits->find("e-") == digits->npos ? HUGE_VAL : 0.0;
  return sign * value;
}

std::optional<int64_t> Truncated(double number) {
  if (!(std::abs(number) < 9.2e18)) return std::nullopt;
  return static_cast<int64_t>(number);
}

Result<Value> IntFilter(Runtime&, const Value& self, const BoundArguments& arguments) {
  const Value otherwise = arguments[0] == nullptr ? Value::Int(0) : *arguments[0];
  KVERN_ASSIGN_OR_RETURN(const int64_t base, arguments.Integer(1, 10, "the base of int"));
  if (base != 0 && (base < 2 || base > 36)) return Status::InvalidArgument("the base of int must lie between 2 and 36");
  if (self.is_undefined()) return Status::InvalidArgument(std::string(self.reason()));
  if (self.is_integral()) return Value::Int(self.integer());
  std::optional<double> number;
  if (self.is(Kind::kFloat)) number = self.number();
  if (self.is_string()) {
    if (const auto integer = ParseInteger(self.text(), static_cast<int>(base))) return Value::Int(*integer);
    number = ParseFloat(self.text());
  }
  if (!number || !std::isfinite(*number)) return otherwise;
  const auto integer = Truncated(*number);
  if (!integer) return Status::InvalidArgument("an integer does not fit 64 bits");
  return Value::Int(*integer);
}

Result<Value> FloatFilter(Runtime&, const Value& self, const BoundArguments& arguments) {
  if (self.is_undefined()) return Status::InvalidArgument(std::string(self.reason()));
  if (self.is_number()) return Value::Float(self.number());
  if (self.is_string()) {
    if (const auto number = ParseFloat(self.text())) return Value::Float(*number);
  }
  return arguments[0] == nullptr ? Value::Float(0) : *arguments[0];
}

Result<Value> AbsFilter(Runtime&, const Value& self, const BoundArguments&) {
  if (!self.is_number()) return Status::InvalidArgument("abs needs a number, found " + std::string(KindName(self)));
  if (self.is(Kind::kFloat)) return Value::Float(std::abs(self.number()));
  return self.integer() < 0 ? Negative(Operator::kNegate, self) : Value::Int(self.integer());
}

// The double nearest to `number` with that many digits after the point; halves, of the exact value, go to even.
Result<Value> Rounded(double number, int64_t precision) {
  if (!std::isfinite(number) || precision > 300) return Value::Float(number);
  if (precision >= 0) {
    char digits[700];
    const auto end =
        std::to_chars(digits, digits + sizeof(digits), number, std::chars_format::fixed, static_cast<int>(precision))
            .ptr;
    std::from_chars(digits, end, number);
    return Value::Float(number);
  }
  if (precision < -300) return Value::Float(std::copysign(0.0, number));
  const double unit = std::pow(10.0, static_cast<double>(-precision));
  return Value::Float(std::nearbyint(number / unit) * unit);
}

Result<Value> RoundFilter(Runtime& runtime, const Value& self, const BoundArguments& arguments) {
  KVERN_ASSIGN_OR_RETURN(const int64_t precision, arguments.Integer(0, 0, "the precision of round"));
  const std::string method = arguments[1] == nullptr ? "common" : TextOf(runtime, *arguments[1]);
  if (!self.is_number()) return Status::InvalidArgument("round needs a number, found " + std::string(KindName(self)));
  if (method == "common") {
    if (self.is_integral() && precision >= 0) return Value::Int(self.integer());
    KVERN_ASSIGN_OR_RETURN(const Value rounded, Rounded(self.number(), precision));
    const auto integer = Truncated(rounded.number());
    return self.is_integral() && integer ? Value::Int(*integer) : rounded;
  }
  if (method != "ceil" && method != "floor")
    return Status::InvalidArgument("the method of round must be common, ceil or floor");
  if (std::abs(precision) > 300 || !std::isfinite(self.number()))
    return Status::InvalidArgument("round cannot do that");
  const double unit = std::pow(10.0, static_cast<double>(precision));
  const double scaled = self.number() * unit;
  return Value::Float((method == "ceil" ? std::ceil(scaled) : std::floor(scaled)) / unit);
}

Result<Value> DefaultFilter(Runtime& runtime, const Value& self, const BoundArguments& arguments) {
  const bool counts = arguments.Flag(1, false) ? self.IsTrue() : !self.is_undefined();
  if (counts) return self;
  return arguments[0] == nullptr ? runtime.Text("") : *arguments[0];
}

}  // namespace

std::span<const Builtin> NumberFilters() {
  static constexpr Builtin kTable[] = {
      {"abs", "", AbsFilter},
      {"d", "default_value= boolean=", DefaultFilter},
      {"default", "default_value= boolean=", DefaultFilter},
      {"float", "default=", FloatFilter},
      {"int", "default= base=", IntFilter},
      {"round", "precision= method=", RoundFilter},
  };
  return kTable;
}

}  // namespace kvern::jinja
