// The functions that every template can call.
#include <algorithm>
#include <cctype>

#include "tokenizer/chat_template/builtins.h"
#include "tokenizer/chat_template/operations.h"
#include "tokenizer/quoted.h"

namespace kvern::jinja {
namespace {

constexpr uint64_t kMaxRange = 100'000;  // As in Jinja's sandbox.
constexpr size_t kMaxDateFormat = 1000;

Result<Value> RangeFunction(Runtime& runtime, const Value&, const BoundArguments& bound) {
  const std::vector<Value>& arguments = bound.all().positional;
  if (arguments.empty() || arguments.size() > 3 || !bound.all().named.empty()) {
    return Status::InvalidArgument("range takes one to three integers");
  }
  int64_t numbers[3] = {0, 0, 1};
  for (size_t i = 0; i < arguments.size(); ++i) {
    KVERN_ASSIGN_OR_RETURN(numbers[i], IntegerArgument(arguments[i], "an argument of range"));
  }
  if (arguments.size() == 1) std::swap(numbers[0], numbers[1]);
  const auto [begin, end, step] = numbers;
  if (step == 0) return Status::InvalidArgument("the step of range is 0");
  std::vector<Value> elements;
  const auto is_inside = [end = end, step = step](int64_t at) { return step > 0 ? at < end : at > end; };
  for (int64_t at = begin; is_inside(at);) {
    if (elements.size() == kMaxRange) {
      return Status::ResourceExhausted("a range has more than " + std::to_string(kMaxRange) + " numbers");
    }
    elements.push_back(Value::Int(at));
    if (__builtin_add_overflow(at, step, &at)) break;
  }
  return Value::List(&runtime.budget(), std::move(elements), Kind::kRange);
}

// The entries of dict(...) and namespace(...): a map or a list of pairs, then named arguments.
Result<std::vector<std::pair<Value, Value>>> Entries(Runtime& runtime, const Arguments& arguments) {
  std::vector<std::pair<Value, Value>> entries;
  if (arguments.positional.size() > 1) return Status::InvalidArgument("expected at most one argument without a name");
  if (!arguments.positional.empty()) {
    const Value& source = arguments.positional[0];
    if (source.is_dict()) {
      entries = source.dict().entries;
    } else {
      KVERN_ASSIGN_OR_RETURN(const Value pairs, Elements(runtime, source));
      for (const Value& pair : pairs.elements()) {
        KVERN_ASSIGN_OR_RETURN(const Value parts, Elements(runtime, pair));
        if (parts.elements().size() != 2) return Status::InvalidArgument("expected pairs of a key and a value");
        if (!IsHashable(parts.elements()[0])) {
          return Status::InvalidArgument(std::string(KindName(parts.elements()[0])) + " cannot be a key of a map");
        }
        entries.emplace_back(parts.elements()[0], parts.elements()[1]);
      }
    }
  }
  for (const auto& [name, value] : arguments.named) entries.emplace_back(runtime.Text(name), value);
  return entries;
}

Result<Value> DictFunction(Runtime& runtime, const Value&, const BoundArguments& arguments) {
  KVERN_ASSIGN_OR_RETURN(auto entries, Entries(runtime, arguments.all()));
  return runtime.Dict(std::move(entries));
}

Result<Value> NamespaceFunction(Runtime& runtime, const Value&, const BoundArguments& arguments) {
  KVERN_ASSIGN_OR_RETURN(const auto entries, Entries(runtime, arguments.all()));
  auto* space = runtime.Own<NamespaceObject>(&runtime.budget());
  for (const auto& [key, value] : entries) {
    if (key.is_string()) space->members.insert_or_assign(std::string(key.text()), value);
  }
  return Value::Borrowed(Kind::kNamespace, space);
}

Result<Value> RaiseException(Runtime& runtime, const Value&, const BoundArguments& arguments) {
  return Status::InvalidArgument("the template says: " + TextOf(runtime, *arguments[0]));
}

// One conversion of strftime, "%-d" for example, in the C locale.
Status AppendDatePart(const std::string& part, const std::tm& now, std::string& out) {
  constexpr std::string_view kLetters = "aAbBcdDeFgGHhIjklmMnpPrRsStTuUVwWxXyYzZC";
  if (kLetters.find(part.back()) == kLetters.npos) {
    return Status::InvalidArgument("strftime_now does not know " + Quoted(part));
  }
  char text[128];
  out.append(text, std::strftime(text, sizeof(text), part.c_str(), &now));
  return Status::Ok();
}

Result<Value> StrftimeNow(Runtime& runtime, const Value&, const BoundArguments& arguments) {
  const std::string format = TextOf(runtime, *arguments[0]);
  if (format.size() > kMaxDateFormat) return Status::InvalidArgument("the format of strftime_now is too long");
  std::string out;
  for (size_t at = 0; at < format.size(); ++at) {
    if (format[at] != '%' || at + 1 == format.size()) {
      out += format[at];
      continue;
    }
    std::string part = "%";
    part += format[++at];
    const bool is_flag = std::string_view("-_0^#").find(part[1]) != std::string_view::npos;
    if (is_flag && at + 1 < format.size()) part += format[++at];
    if (part == "%%") {
      out += '%';
    } else {
      KVERN_RETURN_IF_ERROR(AppendDatePart(part, runtime.now(), out));
    }
  }
  return runtime.Text(std::move(out));
}

constexpr Builtin kFunctions[] = {
    {"dict", "*", DictFunction},
    {"namespace", "*", NamespaceFunction},
    {"raise_exception", "message", RaiseException},
    {"range", "*", RangeFunction},
    {"strftime_now", "format", StrftimeNow},
};

}  // namespace

const Builtin* FindFunction(std::string_view name) {
  for (const Builtin& builtin : kFunctions) {
    if (builtin.name == name) return &builtin;
  }
  return nullptr;
}

}  // namespace kvern::jinja
