#include "tokenizer/chat_template/value.h"

#include <algorithm>
#include <cmath>

#include "tokenizer/chat_template/python_text.h"

namespace kvern::jinja {

Value Value::Bool(bool value) {
  Value result(Kind::kBool);
  result.integer_ = value ? 1 : 0;
  return result;
}

Value Value::Int(int64_t value) {
  Value result(Kind::kInt);
  result.integer_ = value;
  return result;
}

Value Value::Float(double value) {
  Value result(Kind::kFloat);
  result.float_ = value;
  return result;
}

Value Value::Undefined(Budget* budget, std::string reason) {
  return Value(Kind::kUndefined, std::make_shared<TextObject>(budget, std::move(reason), false));
}

Value Value::String(Budget* budget, std::string text, bool is_markup) {
  return Value(Kind::kString, std::make_shared<TextObject>(budget, std::move(text), is_markup));
}

namespace {

void Add(const Value& inner, Extent& outer) {
  const Extent extent = inner.extent();
  outer.depth = std::max(outer.depth, extent.depth + 1);
  outer.num_bytes += std::min(extent.num_bytes, uint64_t{1} << 50);  // The sum cannot wrap.
}

// Whether a list or map of this extent may be made; where not, the budget is spent.
bool Admit(Budget* budget, const Extent& extent) {
  if (budget == nullptr) return true;
  if (extent.depth > kMaxValueDepth) budget->RefuseNesting();
  return extent.depth <= kMaxValueDepth && budget->Fits(extent.num_bytes);
}

}  // namespace

Value Value::List(Budget* budget, std::vector<Value> elements, Kind kind) {
  Extent extent{.depth = 1};
  for (const Value& element : elements) Add(element, extent);
  if (!Admit(budget, extent)) elements.clear();
  return Value(kind, std::make_shared<ListObject>(budget, std::move(elements), extent));
}

Value Value::Range(Budget* budget, std::vector<Value> elements, int64_t begin, int64_t end, int64_t step) {
  const Extent extent{.depth = 1, .num_bytes = 16 + 16 * elements.size()};
  if (!Admit(budget, extent)) elements.clear();
  return Value(Kind::kRange, std::make_shared<RangeObject>(budget, std::move(elements), extent, begin, end, step));
}

Value Value::View(Budget* budget, std::vector<Value> elements, std::string_view name) {
  Extent extent{.depth = 1};
  for (const Value& element : elements) Add(element, extent);
  if (!Admit(budget, extent)) elements.clear();
  return Value(Kind::kDictView, std::make_shared<ViewObject>(budget, std::move(elements), extent, name));
}

Value Value::Dict(Budget* budget, std::vector<std::pair<Value, Value>> entries) {
  Extent extent{.depth = 1};
  for (const auto& [key, value] : entries) {
    Add(key, extent);
    Add(value, extent);
  }
  if (!Admit(budget, extent)) entries.clear();
  return Value(Kind::kDict, std::make_shared<DictObject>(budget, std::move(entries), extent));
}

bool Value::is_markup() const { return is_string() && as<TextObject>().is_markup; }
std::string_view Value::text() const { return as<TextObject>().text; }
const std::vector<Value>& Value::elements() const { return as<ListObject>().elements; }
const DictObject& Value::dict() const { return as<DictObject>(); }

std::string_view Value::reason() const {
  return object_ == nullptr ? std::string_view("the value is undefined") : as<TextObject>().text;
}

bool Value::IsTrue() const {
  switch (kind_) {
    case Kind::kUndefined:
    case Kind::kNone: return false;
    case Kind::kBool:
    case Kind::kInt: return integer_ != 0;
    case Kind::kFloat: return float_ != 0;
    case Kind::kString: return !text().empty();
    case Kind::kList:
    case Kind::kTuple:
    case Kind::kRange:
    case Kind::kDictView: return !elements().empty();
    case Kind::kDict: return !dict().entries.empty();
    default: return true;
  }
}

Extent Value::extent() const {
  if (is_dict()) return dict().extent;
  if (is_sequence() || is(Kind::kDictView)) return as<ListObject>().extent;
  return {.depth = 0, .num_bytes = 16 + (is_string() ? text().size() : 0)};
}

uint64_t Value::own_bytes() const {
  if (is_string()) return text().size();
  if (is_dict()) return 8 * dict().entries.size();
  if (is_sequence() || is(Kind::kDictView)) return 8 * elements().size();
  return 0;
}

namespace {

// Its places hold the text of each key.
uint64_t BytesOfDict(const std::vector<std::pair<Value, Value>>& pairs) {
  uint64_t num_bytes = sizeof(DictObject) + pairs.size() * (2 * sizeof(Value) + 96);
  for (const auto& [key, value] : pairs) num_bytes += key.extent().num_bytes;
  return num_bytes;
}

}  // namespace

DictObject::DictObject(Budget* budget, std::vector<std::pair<Value, Value>> pairs, Extent whole)
    : Object(budget, BytesOfDict(pairs)), extent(whole) {
  entries.reserve(pairs.size());
  for (auto& [key, value] : pairs) {
    const auto [it, is_new] = places_.try_emplace(KeyText(key), entries.size());
    if (is_new) {
      entries.emplace_back(std::move(key), std::move(value));
    } else {
      entries[it->second].second = std::move(value);
    }
  }
}

const Value* DictObject::Find(const Value& key) const {
  if (key.is_string()) return Find(key.text());
  const auto it = places_.find(KeyText(key));
  return it == places_.end() ? nullptr : &entries[it->second].second;
}

const Value* DictObject::Find(std::string_view key) const {
  // The usual map has few keys, and comparing these makes no string.
  if (entries.size() <= 8) {
    for (const auto& [k, v] : entries) {
      if (k.is_string() && k.text() == key) return &v;
    }
    return nullptr;
  }
  const auto it = places_.find(std::string("s").append(key));
  return it == places_.end() ? nullptr : &entries[it->second].second;
}

std::string_view KindName(const Value& value) {
  switch (value.kind()) {
    case Kind::kUndefined: return "an undefined value";
    case Kind::kNone: return "none";
    case Kind::kBool: return "a boolean";
    case Kind::kInt: return "an integer";
    case Kind::kFloat: return "a float";
    case Kind::kString: return "a string";
    case Kind::kList: return "a list";
    case Kind::kTuple: return "a tuple";
    case Kind::kRange: return "a range";
    case Kind::kDict: return "a map";
    case Kind::kDictView: return "a view of a map";
    case Kind::kIterator: return "a lazy sequence";
    case Kind::kNamespace: return "a namespace";
    case Kind::kLoop: return "the loop";
    case Kind::kMacro: return "a macro";
    case Kind::kFunction: return "a function";
    case Kind::kMethod: return "a method";
  }
  return "a value";
}

bool IsHashable(const Value& value) {
  if (value.extent().num_bytes > (1 << 16) && !value.is_string()) return false;  // Keys are written out.
  if (value.is(Kind::kTuple)) return std::all_of(value.elements().begin(), value.elements().end(), IsHashable);
  return !value.is(Kind::kList) && !value.is_dict() && !value.is(Kind::kDictView);
}

std::string KeyText(const Value& value) {
  std::string key;
  switch (value.kind()) {
    case Kind::kString: return (key = 's').append(value.text());
    case Kind::kBool:
    case Kind::kInt: return (key = 'n').append(std::to_string(value.integer()));
    case Kind::kFloat:
      key = 'n';
      if (value.number() == std::floor(value.number()) && std::abs(value.number()) < 9e18) {
        return key.append(std::to_string(static_cast<int64_t>(value.number())));
      }
      return key.append(FloatText(value.number()));
    case Kind::kTuple:
      key = 't';
      for (const Value& element : value.elements()) {
        const std::string part = KeyText(element);
        key.append(std::to_string(part.size())).append(":").append(part);
      }
      return key;
    case Kind::kNone: return key = 'z';
    case Kind::kUndefined: return key = 'u';
    default: return (key = 'o').append(std::to_string(reinterpret_cast<uintptr_t>(value.identity())));
  }
}

}  // namespace kvern::jinja
