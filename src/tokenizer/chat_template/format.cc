// Python's "..." % values.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>

#include "tokenizer/chat_template/builtins.h"
#include "tokenizer/chat_template/characters.h"
#include "tokenizer/chat_template/operations.h"
#include "tokenizer/chat_template/python_text.h"

namespace kvern::jinja {
namespace {

constexpr int kMaxWidth = 1000;  // Of one field; also its precision.

// %[flags][width][.precision]letter
struct Field {
  bool is_left = false, has_zeros = false, has_plus = false, has_space = false, is_alternate = false;
  int width = 0;
  int precision = -1;
  char letter = 0;
};

class Formatter {
 public:
  Formatter(Runtime& runtime, std::string_view format, const Value& values)
      : runtime_(runtime), rest_(format), values_(values) {}

  Result<std::string> Run() {
    while (!rest_.empty()) {
      if (rest_[0] != '%') {
        out_ += Take();
      } else {
        rest_.remove_prefix(1);
        KVERN_RETURN_IF_ERROR(WriteField());
      }
      if (!runtime_.budget().Fits(out_.size())) return runtime_.budget().status();
    }
    if (values_.is(Kind::kTuple) && next_ < values_.elements().size()) {
      return Status::InvalidArgument("% is given more values than the text has fields");
    }
    if (!values_.is(Kind::kTuple) && !is_used_ && !values_.is_dict() && !values_.is(Kind::kList)) {
      return Status::InvalidArgument("% is given a value but the text has no field");
    }
    return std::move(out_);
  }

 private:
  char Take() {
    const char c = rest_[0];
    rest_.remove_prefix(1);
    return c;
  }

  int TakeNumber() {
    int number = 0;
    while (!rest_.empty() && rest_[0] >= '0' && rest_[0] <= '9') {
      number = std::min(number * 10 + (Take() - '0'), kMaxWidth + 1);
    }
    return number;
  }

  Result<Value> Next(const std::string& key, bool has_key) {
    is_used_ = true;
    if (has_key) {
      if (!values_.is_dict()) return Status::InvalidArgument("a named field of % needs a map");
      const Value* value = values_.dict().Find(key);
      if (value == nullptr) return Status::InvalidArgument("% is given no value named '" + key + "'");
      return *value;
    }
    if (!values_.is(Kind::kTuple)) {
      if (next_++ > 0) return Status::InvalidArgument("% is given fewer values than the text has fields");
      return values_;
    }
    if (next_ == values_.elements().size()) {
      return Status::InvalidArgument("% is given fewer values than the text has fields");
    }
    return values_.elements()[next_++];
  }

  Status WriteField() {
    std::string key;
    bool has_key = false;
    if (!rest_.empty() && rest_[0] == '(') {
      const size_t end = rest_.find(')');
      if (end == rest_.npos) return Status::InvalidArgument("a named field of % has no ')'");
      key = rest_.substr(1, end - 1);
      has_key = true;
      rest_.remove_prefix(end + 1);
    }
    const Field field = ReadField();
    if (field.width > kMaxWidth || field.precision > kMaxWidth) {
      return Status::InvalidArgument("a field of % is wider than " + std::to_string(kMaxWidth));
    }
    if (field.letter == '%') {
      out_ += '%';
      return Status::Ok();
    }
    KVERN_ASSIGN_OR_RETURN(const Value value, Next(key, has_key));
    KVERN_ASSIGN_OR_RETURN(const std::string text, FieldText(field, value));
    Pad(field, text);
    return Status::Ok();
  }

  Field ReadField() {
    Field field;
    for (; !rest_.empty() && std::string_view("-0+ #").find(rest_[0]) != std::string_view::npos; Take()) {
      field.is_left |= rest_[0] == '-';
      field.has_zeros |= rest_[0] == '0';
      field.has_plus |= rest_[0] == '+';
      field.has_space |= rest_[0] == ' ';
      field.is_alternate |= rest_[0] == '#';
    }
    field.width = TakeNumber();
    if (!rest_.empty() && rest_[0] == '.') {
      Take();
      field.precision = TakeNumber();
    }
    if (!rest_.empty()) field.letter = Take();
    return field;
  }

  Result<std::string> FieldText(const Field& field, const Value& value) {
    switch (field.letter) {
      case 's': return Cut(field, PrintText(runtime_.budget(), value));
      case 'r': return Cut(field, ReprText(runtime_.budget(), value));
      case 'c':
        if (value.is_string() && CountCharacters(value.text()) == 1) return std::string(value.text());
        return Status::InvalidArgument("%c needs a string of one character");
      case 'd':
      case 'i':
      case 'u':
      case 'x':
      case 'X':
      case 'o': return IntegerText(field, value);
      case 'e':
      case 'E':
      case 'f':
      case 'F':
      case 'g':
      case 'G': return DoubleText(field, value);
      default: return Status::InvalidArgument("% has a field that is not one of s r d i x o e f g c");
    }
  }

  static std::string Cut(const Field& field, std::string text) {
    if (field.precision < 0) return text;
    return text.substr(0, OffsetOfCharacter(text, static_cast<uint64_t>(field.precision)));
  }

  static std::string Sign(const Field& field, bool is_negative) {
    return is_negative ? "-" : field.has_plus ? "+" : field.has_space ? " " : "";
  }

  static Result<std::string> IntegerText(const Field& field, const Value& value) {
    const bool is_decimal = field.letter == 'd' || field.letter == 'i' || field.letter == 'u';
    if (!value.is_integral() && !(is_decimal && value.is_number() && std::abs(value.number()) < 9e18)) {
      return Status::InvalidArgument(std::string("%") + field.letter + " needs an integer, found " +
                                     std::string(KindName(value)));
    }
    const int64_t number = value.is_integral() ? value.integer() : static_cast<int64_t>(value.number());
    const uint64_t size = number < 0 ? -static_cast<uint64_t>(number) : static_cast<uint64_t>(number);
    char digits[24];
    const int base = is_decimal ? 10 : field.letter == 'o' ? 8 : 16;
    std::string text(digits, std::to_chars(digits, digits + sizeof(digits), size, base).ptr);
    if (static_cast<int>(text.size()) < field.precision)
      text.insert(0, static_cast<size_t>(field.precision) - text.size(), '0');
    if (field.letter == 'X') text = Upper(text);
    if (field.is_alternate && !is_decimal) text = std::string("0") + field.letter + text;
    return Sign(field, number < 0) + text;
  }

  static Result<std::string> DoubleText(const Field& field, const Value& value) {
    if (!value.is_number()) {
      return Status::InvalidArgument(std::string("%") + field.letter + " needs a number, found " +
                                     std::string(KindName(value)));
    }
    const char format[] = {'%', '.', '*', field.letter, '\0'};
    const double number = value.number();
    const double size = std::signbit(number) ? -number : number;
    char digits[kMaxWidth + 400];  // The longest double has 309 digits before its point.
    const int length = std::snprintf(digits, sizeof(digits), format, field.precision < 0 ? 6 : field.precision, size);
    return Sign(field, std::signbit(number)) + std::string(digits, static_cast<size_t>(length));
  }

  void Pad(const Field& field, const std::string& text) {
    const auto length = static_cast<int64_t>(CountCharacters(text));
    const auto missing = static_cast<size_t>(std::max<int64_t>(0, field.width - length));
    const bool is_number = field.letter != 's' && field.letter != 'r' && field.letter != 'c';
    if (field.is_left) {
      out_ += text + std::string(missing, ' ');
    } else if (field.has_zeros && is_number) {
      const size_t sign = !text.empty() && std::string_view("+- ").find(text[0]) != std::string_view::npos ? 1 : 0;
      out_ += text.substr(0, sign) + std::string(missing, '0') + text.substr(sign);
    } else {
      out_ += std::string(missing, ' ') + text;
    }
  }

  Runtime& runtime_;
  std::string_view rest_;
  const Value& values_;
  size_t next_ = 0;
  bool is_used_ = false;
  std::string out_;
};

}  // namespace

Result<Value> FormatPercent(Runtime& runtime, const Value& text, const Value& values) {
  runtime.budget().Touch(text.text().size());
  KVERN_ASSIGN_OR_RETURN(std::string formatted, Formatter(runtime, text.text(), values).Run());
  return runtime.Text(std::move(formatted), text.is_markup());
}

}  // namespace kvern::jinja
