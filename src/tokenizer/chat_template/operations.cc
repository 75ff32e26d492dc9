#include "tokenizer/chat_template/operations.h"

#include <algorithm>

#include "tokenizer/chat_template/builtins.h"
#include "tokenizer/chat_template/characters.h"
#include "tokenizer/chat_template/python_text.h"
#include "tokenizer/quoted.h"

namespace kvern::jinja {
namespace {

constexpr uint64_t kBytesOfCharacterValue = 128;  // A string of one character as a value of its own.

Status UndefinedError(const Value& value) { return Status::InvalidArgument(std::string(value.reason())); }

Value MissingMember(Runtime& runtime, const Value& object, std::string_view name) {
  return runtime.Undefined(std::string(KindName(object)) + " has no member " + Quoted(name));
}

Result<Value> LoopAttribute(Runtime& runtime, const LoopObject& loop, std::string_view name) {
  const auto index = static_cast<int64_t>(loop.index);
  const auto length = static_cast<int64_t>(loop.length);
  if (name == "index") return Value::Int(index + 1);
  if (name == "index0") return Value::Int(index);
  if (name == "revindex") return Value::Int(length - index);
  if (name == "revindex0") return Value::Int(length - index - 1);
  if (name == "first") return Value::Bool(index == 0);
  if (name == "last") return Value::Bool(index + 1 == length);
  if (name == "length") return Value::Int(length);
  if (name == "depth") return Value::Int(loop.depth);
  if (name == "depth0") return Value::Int(loop.depth - 1);
  if (name == "previtem") {
    if (index == 0 || loop.elements.is_undefined()) return runtime.Undefined("there is no previous item");
    return loop.elements.elements()[loop.index - 1];
  }
  if (name == "nextitem") {
    if (index + 1 == length || loop.elements.is_undefined()) return runtime.Undefined("there is no next item");
    return loop.elements.elements()[loop.index + 1];
  }
  return runtime.Undefined("the loop has no member " + Quoted(name));
}

// The method `name` of `object`; nullopt where it has none.
std::optional<Result<Value>> Method(Runtime& runtime, const Value& object, std::string_view name) {
  if (const Builtin* builtin = FindMethod(object.kind(), name); builtin != nullptr) {
    return Value::Shared(Kind::kMethod, std::make_shared<MethodObject>(&runtime.budget(), object, *builtin));
  }
  bool changes = false;
  if (IsMissingMethod(object.kind(), name, changes)) {
    if (changes)
      return runtime.Undefined("a template may not change " + std::string(KindName(object)) + " with " + Quoted(name));
    return Status::Unsupported("the method " + Quoted(name) + " of " + std::string(KindName(object)) +
                               " is not supported");
  }
  return std::nullopt;
}

// Element `index` of `size`, counted from the end where negative; nullopt outside.
std::optional<size_t> PlaceOf(int64_t index, uint64_t size) {
  if (index < 0) index += static_cast<int64_t>(size);
  if (index < 0 || static_cast<uint64_t>(index) >= size) return std::nullopt;
  return static_cast<size_t>(index);
}

std::optional<Value> ElementAt(Runtime& runtime, const Value& object, int64_t index) {
  if (object.is_sequence()) {
    const auto place = PlaceOf(index, object.elements().size());
    if (!place) return std::nullopt;
    return object.elements()[*place];
  }
  if (!object.is_string()) return std::nullopt;
  runtime.budget().Touch(object.text().size());
  const auto place = PlaceOf(index, CountCharacters(object.text()));
  if (!place) return std::nullopt;
  const std::string_view rest = object.text().substr(OffsetOfCharacter(object.text(), *place));
  return runtime.Text(std::string(FirstCharacter(rest).bytes), object.is_markup());
}

struct SliceRange {
  int64_t begin, end, step;
  uint64_t count;
};

// Source: PySlice_AdjustIndices.
SliceRange Adjusted(std::optional<int64_t> begin, std::optional<int64_t> end, int64_t step, int64_t length) {
  const auto clamp = [&](std::optional<int64_t> bound, int64_t otherwise) {
    if (!bound) return otherwise;
    if (*bound < 0) return std::max(*bound + length, step < 0 ? int64_t{-1} : int64_t{0});
    return std::min(*bound, step < 0 ? length - 1 : length);
  };
  const int64_t first = clamp(begin, step < 0 ? length - 1 : 0);
  const int64_t last = clamp(end, step < 0 ? -1 : length);
  uint64_t count = 0;
  if (step > 0 && first < last) count = static_cast<uint64_t>((last - first - 1) / step + 1);
  if (step < 0 && last < first) count = static_cast<uint64_t>((first - last - 1) / -step + 1);
  return {first, last, step, count};
}

Result<std::optional<int64_t>> Bound(const Value* bound) {
  if (bound == nullptr || bound->is_none()) return std::optional<int64_t>();
  KVERN_ASSIGN_OR_RETURN(const int64_t value, IntegerArgument(*bound, "the bound of a slice"));
  return std::optional<int64_t>(value);
}

Value SliceOfText(Runtime& runtime, const Value& object, const SliceRange& range) {
  const std::string_view text = object.text();
  if (range.step == 1) {
    const size_t begin = OffsetOfCharacter(text, static_cast<uint64_t>(range.begin));
    const std::string_view rest = text.substr(begin);
    return runtime.Text(std::string(rest.substr(0, OffsetOfCharacter(rest, range.count))), object.is_markup());
  }
  std::vector<std::string_view> characters;
  for (std::string_view rest = text; !rest.empty(); rest.remove_prefix(characters.back().size())) {
    characters.push_back(FirstCharacter(rest).bytes);
  }
  std::string result;
  for (uint64_t i = 0; i < range.count; ++i) {
    result += characters[static_cast<size_t>(range.begin + static_cast<int64_t>(i) * range.step)];
  }
  return runtime.Text(std::move(result), object.is_markup());
}

}  // namespace

Result<Value> GetAttribute(Runtime& runtime, const Value& object, std::string_view name) {
  if (object.is_undefined()) return UndefinedError(object);
  if (auto method = Method(runtime, object, name)) return *std::move(method);
  switch (object.kind()) {
    case Kind::kDict:
      if (const Value* member = object.dict().Find(name); member != nullptr) return *member;
      break;
    case Kind::kNamespace: {
      const auto& members = object.as<NamespaceObject>().members;
      if (const auto it = members.find(name); it != members.end()) return it->second;
      break;
    }
    case Kind::kLoop: return LoopAttribute(runtime, object.as<LoopObject>(), name);
    default: break;
  }
  return MissingMember(runtime, object, name);
}

Result<Value> GetItem(Runtime& runtime, const Value& object, const Value& key) {
  if (object.is_undefined()) return UndefinedError(object);
  if (object.is_dict() && IsHashable(key)) {
    if (const Value* member = FindKey(runtime.budget(), object.dict(), key); member != nullptr) return *member;
  }
  if (key.is_integral()) {
    if (const auto element = ElementAt(runtime, object, key.integer())) return *element;
    return runtime.Undefined(std::string(KindName(object)) + " has no element " + std::to_string(key.integer()));
  }
  if (!key.is_string()) {
    return runtime.Undefined(std::string(KindName(object)) + " has no element at " + std::string(KindName(key)));
  }
  if (object.is_dict()) {  // Attributes of a map are its methods alone: the key was looked for.
    if (auto method = Method(runtime, object, key.text())) return *std::move(method);
    return MissingMember(runtime, object, key.text());
  }
  return GetAttribute(runtime, object, key.text());
}

Result<Value> GetSlice(Runtime& runtime, const Value& object, const Value* begin, const Value* end, const Value* step) {
  if (object.is_undefined()) return UndefinedError(object);
  if (!object.is_string() && !object.is_sequence()) {
    return Status::InvalidArgument(std::string(KindName(object)) + " cannot be sliced");
  }
  KVERN_ASSIGN_OR_RETURN(const auto first, Bound(begin));
  KVERN_ASSIGN_OR_RETURN(const auto last, Bound(end));
  KVERN_ASSIGN_OR_RETURN(const auto stride, Bound(step));
  if (stride == 0) return Status::InvalidArgument("the step of a slice is 0");
  KVERN_ASSIGN_OR_RETURN(const int64_t length, Length(object));
  // No step beyond the length differs from the length; so it cannot overflow below.
  const int64_t bounded = std::clamp(stride.value_or(1), -length - 1, length + 1);
  const SliceRange range = Adjusted(first, last, bounded, length);
  runtime.budget().Touch(object.own_bytes());
  if (object.is_string()) {
    if (range.step != 1) runtime.budget().TouchCharacters(object.text().size());
    if (!runtime.budget().Fits(object.text().size() * (range.step == 1 ? 1 : 17))) return runtime.budget().status();
    return SliceOfText(runtime, object, range);
  }
  std::vector<Value> elements;
  for (uint64_t i = 0; i < range.count; ++i) {
    elements.push_back(object.elements()[static_cast<size_t>(range.begin + static_cast<int64_t>(i) * range.step)]);
  }
  if (object.is(Kind::kRange)) {
    const auto& whole = object.as<RangeObject>();
    // Of a range near the limits of 64 bits the bounds, which are only printed, wrap.
    const auto at = [&whole](int64_t index) {
      return static_cast<int64_t>(static_cast<uint64_t>(whole.begin) +
                                  static_cast<uint64_t>(index) * static_cast<uint64_t>(whole.step));
    };
    return Value::Range(
        &runtime.budget(), std::move(elements), at(range.begin), at(range.end),
        static_cast<int64_t>(static_cast<uint64_t>(stride.value_or(1)) * static_cast<uint64_t>(whole.step)));
  }
  return Value::List(&runtime.budget(), std::move(elements), object.kind());
}

bool IsIterable(const Value& value) {
  return value.is_sequence() || value.is_string() || value.is_dict() || value.is(Kind::kDictView) ||
         value.is(Kind::kIterator) || value.is_undefined();
}

Result<Value> Elements(Runtime& runtime, const Value& value) {
  if (value.is_sequence() || value.is(Kind::kDictView)) return value;
  std::vector<Value> elements;
  if (value.is_undefined()) return runtime.List(std::move(elements));
  if (value.is_dict()) {
    for (const auto& [key, member] : value.dict().entries) elements.push_back(key);
    return runtime.List(std::move(elements));
  }
  if (value.is_string()) {
    if (!runtime.budget().Fits(value.text().size() * kBytesOfCharacterValue)) return runtime.budget().status();
    for (std::string_view rest = value.text(); !rest.empty();) {
      const std::string_view character = FirstCharacter(rest).bytes;
      elements.push_back(runtime.Text(std::string(character)));
      rest.remove_prefix(character.size());
    }
    return runtime.List(std::move(elements));
  }
  if (value.is(Kind::kIterator)) {
    auto& iterator = value.as<IteratorObject>();
    KVERN_RETURN_IF_ERROR(iterator.error);
    const std::vector<Value>& all = iterator.list.elements();
    elements.assign(all.begin() + static_cast<std::ptrdiff_t>(iterator.next), all.end());
    iterator.next = all.size();
    return runtime.List(std::move(elements));
  }
  return Status::InvalidArgument(std::string(KindName(value)) + " has no elements to go through");
}

Result<int64_t> Length(const Value& value) {
  if (value.is_string()) return static_cast<int64_t>(CountCharacters(value.text()));
  if (value.is_sequence() || value.is(Kind::kDictView)) return static_cast<int64_t>(value.elements().size());
  if (value.is_dict()) return static_cast<int64_t>(value.dict().entries.size());
  if (value.is_undefined()) return int64_t{0};
  if (value.is(Kind::kLoop)) return static_cast<int64_t>(value.as<LoopObject>().length);
  return Status::InvalidArgument(std::string(KindName(value)) + " has no length");
}

Result<int64_t> IntegerArgument(const Value& value, std::string_view what) {
  if (value.is_integral()) return value.integer();
  if (value.is_undefined()) return UndefinedError(value);
  return Status::InvalidArgument(std::string(what) + " is " + std::string(KindName(value)) + ", expected an integer");
}

}  // namespace kvern::jinja
