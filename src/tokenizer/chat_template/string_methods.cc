// The methods of strings.
#include <algorithm>

#include "tokenizer/chat_template/characters.h"
#include "tokenizer/chat_template/methods.h"
#include "tokenizer/chat_template/operations.h"
#include "tokenizer/chat_template/python_text.h"
#include "tokenizer/chat_template/text.h"

namespace kvern::jinja {
namespace {

constexpr uint64_t kBytesOfPart = 128;  // Of a short string in a list.

Value Like(Runtime& runtime, const Value& self, std::string_view text) {
  return runtime.Text(std::string(text), self.is_markup());
}

bool IsGiven(const Value* value) { return value != nullptr && !value->is_none(); }

Result<std::string_view> TextArgument(const Value& value) {
  if (value.is_string()) return value.text();
  if (value.is_undefined()) return Status::InvalidArgument(std::string(value.reason()));
  return Status::InvalidArgument("expected a string, found " + std::string(KindName(value)));
}

template <std::string (*kChange)(std::string_view)>
Result<Value> Changed(Runtime& runtime, const Value& self, const BoundArguments&) {
  runtime.budget().TouchCharacters(self.text().size());
  return Like(runtime, self, kChange(self.text()));
}

std::string SwappedCase(std::string_view text) {
  std::string out;
  for (; !text.empty(); text.remove_prefix(FirstCharacter(text).bytes.size())) {
    const Character c = FirstCharacter(text);
    out += IsOf(CharacterClass::kUpper, c.code) ? Lower(c.bytes) : Upper(c.bytes);
  }
  return out;
}

template <bool kStart, bool kEnd>
Result<Value> Strip(Runtime& runtime, const Value& self, const BoundArguments& arguments) {
  std::string_view text = self.text();
  if (!IsGiven(arguments[0])) {
    if (kStart) text = StripStart(text);
    if (kEnd) text = StripEnd(text);
  } else {
    KVERN_ASSIGN_OR_RETURN(const std::string_view set, TextArgument(*arguments[0]));
    KVERN_RETURN_IF_ERROR(AllowSearch(runtime, text, set));
    if (kStart) text = StripStart(text, set);
    if (kEnd) text = StripEnd(text, set);
  }
  return Like(runtime, self, text);
}

Result<Value> ListOfParts(Runtime& runtime, const Value& self, const std::vector<std::string_view>& parts) {
  if (!runtime.budget().Fits(self.text().size() + parts.size() * kBytesOfPart)) return runtime.budget().status();
  std::vector<Value> values;
  values.reserve(parts.size());
  for (const std::string_view part : parts) values.push_back(Like(runtime, self, part));
  return runtime.List(std::move(values));
}

template <bool kFromEnd>
Result<Value> SplitMethod(Runtime& runtime, const Value& self, const BoundArguments& arguments) {
  std::string_view separator;
  if (IsGiven(arguments[0])) {
    KVERN_ASSIGN_OR_RETURN(separator, TextArgument(*arguments[0]));
    if (separator.empty()) return Status::InvalidArgument("cannot split at an empty separator");
  }
  KVERN_RETURN_IF_ERROR(AllowSearch(runtime, self.text(), separator));
  KVERN_ASSIGN_OR_RETURN(const int64_t max_splits, arguments.Integer(1, -1, "the second argument of split"));
  return ListOfParts(runtime, self, Split(self.text(), separator, max_splits, kFromEnd));
}

Result<Value> SplitLines(Runtime& runtime, const Value& self, const BoundArguments& arguments) {
  return ListOfParts(runtime, self, Lines(self.text(), arguments.Flag(0, false)));
}

template <bool kFromEnd>
Result<Value> Partition(Runtime& runtime, const Value& self, const BoundArguments& arguments) {
  KVERN_ASSIGN_OR_RETURN(const std::string_view separator, TextArgument(*arguments[0]));
  if (separator.empty()) return Status::InvalidArgument("cannot split at an empty separator");
  KVERN_RETURN_IF_ERROR(AllowSearch(runtime, self.text(), separator));
  const std::string_view text = self.text();
  const size_t at = kFromEnd ? text.rfind(separator) : text.find(separator);
  std::vector<Value> parts(3, Like(runtime, self, ""));
  if (at == text.npos) {
    parts[kFromEnd ? 2 : 0] = Like(runtime, self, text);
  } else {
    parts = {Like(runtime, self, text.substr(0, at)), Like(runtime, self, separator),
             Like(runtime, self, text.substr(at + separator.size()))};
  }
  return runtime.Tuple(std::move(parts));
}

// self[begin:end] of the arguments after the first, and how many characters stand before it.
struct Part {
  std::string_view text;
  int64_t offset;
  bool is_empty_range;  // The range begins after the end: not even "" is in it.
};
Result<Part> PartOf(const Value& self, const BoundArguments& arguments) {
  if (!IsGiven(arguments[1]) && !IsGiven(arguments[2])) return Part{self.text(), 0, false};
  const auto length = static_cast<int64_t>(CountCharacters(self.text()));
  KVERN_ASSIGN_OR_RETURN(int64_t begin, arguments.Integer(1, 0, "the begin"));
  KVERN_ASSIGN_OR_RETURN(int64_t end, arguments.Integer(2, length, "the end"));
  if (begin < 0) begin = std::max<int64_t>(0, begin + length);
  if (end < 0) end = std::max<int64_t>(0, end + length);
  end = std::min(end, length);
  if (begin > end) return Part{"", begin, true};
  const std::string_view rest = self.text().substr(OffsetOfCharacter(self.text(), static_cast<uint64_t>(begin)));
  return Part{rest.substr(0, OffsetOfCharacter(rest, static_cast<uint64_t>(end - begin))), begin, false};
}

template <bool kAtEnd>
Result<Value> HasAffix(Runtime&, const Value& self, const BoundArguments& arguments) {
  KVERN_ASSIGN_OR_RETURN(const Part part, PartOf(self, arguments));
  const Value& wanted = *arguments[0];
  const std::vector<Value> one = {wanted};
  bool has_any = false;
  for (const Value& affix : wanted.is(Kind::kTuple) ? wanted.elements() : one) {
    KVERN_ASSIGN_OR_RETURN(const std::string_view text, TextArgument(affix));
    has_any |= !part.is_empty_range && (kAtEnd ? part.text.ends_with(text) : part.text.starts_with(text));
  }
  return Value::Bool(has_any);
}

template <bool kFromEnd, bool kMustBeThere>
Result<Value> Find(Runtime& runtime, const Value& self, const BoundArguments& arguments) {
  KVERN_ASSIGN_OR_RETURN(const std::string_view wanted, TextArgument(*arguments[0]));
  KVERN_ASSIGN_OR_RETURN(const Part part, PartOf(self, arguments));
  KVERN_RETURN_IF_ERROR(AllowSearch(runtime, part.text, wanted));
  const size_t at = part.is_empty_range ? std::string_view::npos
                    : kFromEnd          ? part.text.rfind(wanted)
                                        : part.text.find(wanted);
  if (at != std::string_view::npos) {
    return Value::Int(part.offset + static_cast<int64_t>(CountCharacters(part.text.substr(0, at))));
  }
  if (kMustBeThere) return Status::InvalidArgument("index does not find its argument in the string");
  return Value::Int(-1);
}

Result<Value> Count(Runtime& runtime, const Value& self, const BoundArguments& arguments) {
  KVERN_ASSIGN_OR_RETURN(const std::string_view wanted, TextArgument(*arguments[0]));
  KVERN_ASSIGN_OR_RETURN(const Part part, PartOf(self, arguments));
  KVERN_RETURN_IF_ERROR(AllowSearch(runtime, part.text, wanted));
  if (part.is_empty_range) return Value::Int(0);
  if (wanted.empty()) return Value::Int(static_cast<int64_t>(CountCharacters(part.text)) + 1);
  int64_t count = 0;
  for (size_t at = 0; (at = part.text.find(wanted, at)) != part.text.npos; at += wanted.size()) ++count;
  return Value::Int(count);
}

Result<Value> Replace(Runtime& runtime, const Value& self, const BoundArguments& arguments) {
  KVERN_ASSIGN_OR_RETURN(const std::string_view old, TextArgument(*arguments[0]));
  KVERN_ASSIGN_OR_RETURN(const std::string_view with, TextArgument(*arguments[1]));
  KVERN_ASSIGN_OR_RETURN(const int64_t count, arguments.Integer(2, -1, "the count of replace"));
  const auto escaped = [&self](std::string_view text) { return self.is_markup() ? Escaped(text) : std::string(text); };
  KVERN_ASSIGN_OR_RETURN(const std::string text, Replaced(runtime, self.text(), escaped(old), escaped(with), count));
  return Like(runtime, self, text);
}

Result<Value> Join(Runtime& runtime, const Value& self, const BoundArguments& arguments) {
  KVERN_ASSIGN_OR_RETURN(const Value elements, Elements(runtime, *arguments[0]));
  std::string out;
  for (size_t i = 0; i < elements.elements().size(); ++i) {
    KVERN_ASSIGN_OR_RETURN(const std::string_view part, TextArgument(elements.elements()[i]));
    if (i > 0) out += self.text();
    const bool escapes = self.is_markup() && !elements.elements()[i].is_markup();
    out += escapes ? Escaped(part) : std::string(part);
    runtime.budget().Step();
    if (!runtime.budget().Fits(out.size())) return runtime.budget().status();
  }
  return Like(runtime, self, out);
}

template <Side kSide>
Result<Value> Pad(Runtime& runtime, const Value& self, const BoundArguments& arguments) {
  KVERN_ASSIGN_OR_RETURN(const int64_t width, IntegerArgument(*arguments[0], "the width"));
  const std::string_view fill = arguments[1] != nullptr && arguments[1]->is_string() ? arguments[1]->text() : " ";
  if (CountCharacters(fill) != 1) return Status::InvalidArgument("expected one character to fill with");
  KVERN_ASSIGN_OR_RETURN(const std::string text, Padded(runtime, std::string(self.text()), width, fill, kSide));
  return Like(runtime, self, text);
}

// Zeros go after the sign.
Result<Value> ZeroFill(Runtime& runtime, const Value& self, const BoundArguments& arguments) {
  KVERN_ASSIGN_OR_RETURN(const int64_t width, IntegerArgument(*arguments[0], "the width"));
  const bool has_sign = self.text().starts_with('-') || self.text().starts_with('+');
  const std::string_view digits = self.text().substr(has_sign ? 1 : 0);
  KVERN_ASSIGN_OR_RETURN(const std::string text, Padded(runtime, std::string(digits),
                                                        std::max<int64_t>(width, 1) - has_sign, "0", Side::kLeft));
  return Like(runtime, self, std::string(self.text().substr(0, has_sign)) + text);
}

template <bool kAtEnd>
Result<Value> RemoveAffix(Runtime& runtime, const Value& self, const BoundArguments& arguments) {
  KVERN_ASSIGN_OR_RETURN(const std::string_view affix, TextArgument(*arguments[0]));
  std::string_view text = self.text();
  if (kAtEnd && text.ends_with(affix)) text.remove_suffix(affix.size());
  if (!kAtEnd && text.starts_with(affix)) text.remove_prefix(affix.size());
  return Like(runtime, self, text);
}

template <CharacterClass kClass>
Result<Value> IsAll(Runtime& runtime, const Value& self, const BoundArguments&) {
  runtime.budget().TouchCharacters(self.text().size());
  bool is_all = !self.text().empty();
  for (std::string_view rest = self.text(); is_all && !rest.empty();) {
    const Character c = FirstCharacter(rest);
    is_all = IsOf(kClass, c.code);
    rest.remove_prefix(c.bytes.size());
  }
  return Value::Bool(is_all);
}

Result<Value> IsAllSpace(Runtime&, const Value& self, const BoundArguments&) {
  return Value::Bool(!self.text().empty() && StripStart(self.text()).empty());
}

Result<Value> IsOneCase(Runtime& runtime, const Value& self, std::string_view test) {
  return RunBuiltin(runtime, *FindTest(test), self, {});
}
Result<Value> IsLower(Runtime& runtime, const Value& self, const BoundArguments&) {
  return IsOneCase(runtime, self, "lower");
}
Result<Value> IsUpper(Runtime& runtime, const Value& self, const BoundArguments&) {
  return IsOneCase(runtime, self, "upper");
}

// "{} {0} {name}".format(...): fields without a format of their own.
Result<Value> Format(Runtime& runtime, const Value& self, const BoundArguments& bound) {
  const Arguments& arguments = bound.all();
  std::string out;
  size_t next = 0;
  for (std::string_view rest = self.text(); !rest.empty();) {
    const char c = rest[0];
    const bool is_doubled = rest.size() > 1 && rest[1] == c;
    if ((c != '{' && c != '}') || is_doubled) {
      out += c;
      rest.remove_prefix(c == '{' || c == '}' ? 2 : 1);
      continue;
    }
    const size_t end = rest.find('}');
    if (c == '}' || end == rest.npos) return Status::InvalidArgument("format finds a single '{' or '}'");
    const std::string_view name = rest.substr(1, end - 1);
    rest.remove_prefix(end + 1);
    if (name.find_first_of(":!.[{") != name.npos) {
      return Status::Unsupported("format knows {}, {0} and {name} only: use the operator % for more");
    }
    const Value* value = nullptr;
    const bool is_number = name.find_first_not_of("0123456789") == name.npos && name.size() < 6;
    const size_t index = !is_number ? 0 : name.empty() ? next++ : static_cast<size_t>(std::stoul(std::string(name)));
    if (is_number && index < arguments.positional.size()) value = &arguments.positional[index];
    for (const auto& [key, named] : arguments.named) {
      if (key == name) value = &named;
    }
    if (value == nullptr) return Status::InvalidArgument("format is given no value for a field");
    out += TextOf(runtime, *value);
    if (!runtime.budget().Fits(out.size())) return runtime.budget().status();
  }
  return Like(runtime, self, out);
}

}  // namespace

std::span<const Builtin> StringMethods() {
  static constexpr Builtin kTable[] = {
      {"strip", "chars=", Strip<true, true>},
      {"split", "sep= maxsplit=", SplitMethod<false>},
      {"startswith", "prefix start= end=", HasAffix<false>},
      {"endswith", "suffix start= end=", HasAffix<true>},
      {"lstrip", "chars=", Strip<true, false>},
      {"rstrip", "chars=", Strip<false, true>},
      {"replace", "old new count=", Replace},
      {"upper", "", Changed<Upper>},
      {"lower", "", Changed<Lower>},
      {"title", "", Changed<Titled>},
      {"capitalize", "", Changed<Capitalized>},
      {"casefold", "", Changed<Lower>},
      {"swapcase", "", Changed<SwappedCase>},
      {"join", "iterable", Join},
      {"format", "*", Format},
      {"find", "sub start= end=", Find<false, false>},
      {"rfind", "sub start= end=", Find<true, false>},
      {"index", "sub start= end=", Find<false, true>},
      {"rindex", "sub start= end=", Find<true, true>},
      {"count", "sub start= end=", Count},
      {"rsplit", "sep= maxsplit=", SplitMethod<true>},
      {"splitlines", "keepends=", SplitLines},
      {"partition", "sep", Partition<false>},
      {"rpartition", "sep", Partition<true>},
      {"removeprefix", "prefix", RemoveAffix<false>},
      {"removesuffix", "suffix", RemoveAffix<true>},
      {"ljust", "width fillchar=", Pad<Side::kRight>},
      {"rjust", "width fillchar=", Pad<Side::kLeft>},
      {"center", "width fillchar=", Pad<Side::kBoth>},
      {"zfill", "width", ZeroFill},
      {"isalpha", "", IsAll<CharacterClass::kLetter>},
      {"isdigit", "", IsAll<CharacterClass::kDigit>},
      {"isdecimal", "", IsAll<CharacterClass::kDecimal>},
      {"isnumeric", "", IsAll<CharacterClass::kNumeric>},
      {"isalnum", "", IsAll<CharacterClass::kAlphanumeric>},
      {"isspace", "", IsAllSpace},
      {"islower", "", IsLower},
      {"isupper", "", IsUpper},
  };
  return kTable;
}

}  // namespace kvern::jinja
