// Filters that work on lists and maps as a whole.
#include <algorithm>
#include <set>

#include "tokenizer/chat_template/characters.h"
#include "tokenizer/chat_template/filters.h"
#include "tokenizer/chat_template/operations.h"
#include "tokenizer/chat_template/text.h"
#include "tokenizer/quoted.h"

namespace kvern::jinja {
namespace {

bool IsGiven(const Value* value) { return value != nullptr && !value->is_none(); }

Result<Value> LengthFilter(Runtime&, const Value& self, const BoundArguments&) {
  KVERN_ASSIGN_OR_RETURN(const int64_t length, Length(self));
  return Value::Int(length);
}

Result<Value> ListFilter(Runtime& runtime, const Value& self, const BoundArguments&) {
  KVERN_ASSIGN_OR_RETURN(const Value elements, Elements(runtime, self));
  return elements.is(Kind::kList) ? elements : runtime.List(elements.elements());
}

Result<Value> FirstFilter(Runtime& runtime, const Value& self, const BoundArguments&) {
  if (self.is(Kind::kIterator)) {
    auto& iterator = self.as<IteratorObject>();
    const std::vector<Value>& all = iterator.list.elements();
    if (iterator.next < all.size()) return all[iterator.next++];
    KVERN_RETURN_IF_ERROR(iterator.error);
  }
  if (self.is_string() && !self.text().empty()) return runtime.Text(std::string(FirstCharacter(self.text()).bytes));
  KVERN_ASSIGN_OR_RETURN(const Value elements, Elements(runtime, self));
  if (elements.elements().empty()) return runtime.Undefined("there is no first item, the sequence is empty");
  return elements.elements().front();
}

Result<Value> LastFilter(Runtime& runtime, const Value& self, const BoundArguments&) {
  if (self.is(Kind::kIterator))
    return Status::InvalidArgument("a lazy sequence has no last item: make it a list first (| list)");
  KVERN_ASSIGN_OR_RETURN(const Value elements, Elements(runtime, self));
  if (elements.elements().empty()) return runtime.Undefined("there is no last item, the sequence is empty");
  return elements.elements().back();
}

Result<Value> ReverseFilter(Runtime& runtime, const Value& self, const BoundArguments&) {
  if (self.is_string()) {
    const Value back = Value::Int(-1);
    return GetSlice(runtime, self, nullptr, nullptr, &back);
  }
  KVERN_ASSIGN_OR_RETURN(const Value elements, Elements(runtime, self));
  std::vector<Value> reversed(elements.elements().rbegin(), elements.elements().rend());
  if (self.is(Kind::kIterator)) return runtime.List(std::move(reversed));
  return runtime.Iterator(std::move(reversed));
}

Value WithoutCase(Runtime& runtime, const Value& value) {
  if (!value.is_string()) return value;
  runtime.budget().TouchCharacters(value.text().size());
  return runtime.Text(Lower(value.text()));
}

// Sorts by the keys given beside the values; the first comparison that fails is the result.
Result<std::vector<Value>> SortedByKey(Runtime& runtime, std::vector<std::pair<Value, Value>> keyed, bool is_reversed) {
  Status status;
  // A merge sort asks about pairs only and stays in bounds whatever it is told.
  std::stable_sort(keyed.begin(), keyed.end(), [&](const auto& a, const auto& b) {
    if (!status.ok()) return false;
    const auto less = is_reversed ? Less(runtime.budget(), b.first, a.first) : Less(runtime.budget(), a.first, b.first);
    if (!less.ok()) status = less.status();
    return less.ok() && *less;
  });
  KVERN_RETURN_IF_ERROR(status);
  std::vector<Value> sorted;
  sorted.reserve(keyed.size());
  for (auto& [key, value] : keyed) sorted.push_back(std::move(value));
  return sorted;
}

// The value to sort by: of attributes "a,b" the values of both.
Result<Value> SortKey(Runtime& runtime, const Value& value, const Value* attribute, bool minds_case) {
  std::vector<Value> keys;
  if (!IsGiven(attribute)) {
    keys.push_back(value);
  } else if (!attribute->is_string()) {
    KVERN_ASSIGN_OR_RETURN(Value key, GetItem(runtime, value, *attribute));
    keys.push_back(std::move(key));
  } else {
    for (const std::string_view path : Split(attribute->text(), ",", -1, /*from_end=*/false)) {
      KVERN_ASSIGN_OR_RETURN(Value key, MemberByPath(runtime, value, runtime.Text(std::string(path))));
      keys.push_back(std::move(key));
    }
  }
  if (!minds_case) {
    for (Value& key : keys) key = WithoutCase(runtime, key);
  }
  return runtime.List(std::move(keys));
}

Result<std::vector<std::pair<Value, Value>>> WithKeys(Runtime& runtime, const Value& sequence, const Value* attribute,
                                                      bool minds_case) {
  KVERN_ASSIGN_OR_RETURN(const Value elements, Elements(runtime, sequence));
  std::vector<std::pair<Value, Value>> keyed;
  for (const Value& element : elements.elements()) {
    KVERN_ASSIGN_OR_RETURN(Value key, SortKey(runtime, element, attribute, minds_case));
    if (runtime.budget().is_spent()) return runtime.budget().status();
    keyed.emplace_back(std::move(key), element);
  }
  return keyed;
}

Result<Value> SortFilter(Runtime& runtime, const Value& self, const BoundArguments& arguments) {
  KVERN_ASSIGN_OR_RETURN(auto keyed, WithKeys(runtime, self, arguments[2], arguments.Flag(1, false)));
  KVERN_ASSIGN_OR_RETURN(auto sorted, SortedByKey(runtime, std::move(keyed), arguments.Flag(0, false)));
  return runtime.List(std::move(sorted));
}

Result<Value> DictSortFilter(Runtime& runtime, const Value& self, const BoundArguments& arguments) {
  if (!self.is_dict()) return Status::InvalidArgument("dictsort needs a map, found " + std::string(KindName(self)));
  const std::string by = arguments[1] == nullptr ? "key" : TextOf(runtime, *arguments[1]);
  if (by != "key" && by != "value")
    return Status::InvalidArgument("dictsort sorts by \"key\" or \"value\", not " + Quoted(by));
  std::vector<std::pair<Value, Value>> keyed;
  for (const auto& [key, value] : self.dict().entries) {
    const Value& chosen = by == "key" ? key : value;
    keyed.emplace_back(arguments.Flag(0, false) ? chosen : WithoutCase(runtime, chosen), runtime.Tuple({key, value}));
  }
  KVERN_ASSIGN_OR_RETURN(auto sorted, SortedByKey(runtime, std::move(keyed), arguments.Flag(2, false)));
  return runtime.List(std::move(sorted));
}

Result<Value> UniqueFilter(Runtime& runtime, const Value& self, const BoundArguments& arguments) {
  const auto elements = Elements(runtime, self);
  if (!elements.ok()) return runtime.Iterator({}, elements.status());
  std::set<std::string> seen;
  std::vector<Value> unique;
  for (const Value& element : elements->elements()) {
    Value key = element;
    if (IsGiven(arguments[1])) {
      KVERN_ASSIGN_OR_RETURN(key, MemberByPath(runtime, element, *arguments[1]));
    }
    if (!arguments.Flag(0, false)) key = WithoutCase(runtime, key);
    if (!IsHashable(key)) {
      return runtime.Iterator(std::move(unique),
                              Status::InvalidArgument("unique cannot compare " + std::string(KindName(key))));
    }
    runtime.budget().Step();
    runtime.budget().Touch(key.extent().num_bytes);
    if (runtime.budget().is_spent()) return runtime.budget().status();
    if (seen.insert(KeyText(key)).second) unique.push_back(element);
  }
  return runtime.Iterator(std::move(unique));
}

Result<Value> Extreme(Runtime& runtime, const Value& self, const BoundArguments& arguments, bool wants_most) {
  KVERN_ASSIGN_OR_RETURN(const Value elements, Elements(runtime, self));
  if (elements.elements().empty()) return runtime.Undefined("there is no item to choose, the sequence is empty");
  Value best;
  Value best_key;
  bool is_first = true;
  for (const Value& element : elements.elements()) {
    Value key = element;
    if (IsGiven(arguments[1])) {
      KVERN_ASSIGN_OR_RETURN(key, MemberByPath(runtime, element, *arguments[1]));
    }
    if (!arguments.Flag(0, false)) key = WithoutCase(runtime, key);
    if (!is_first) {
      KVERN_ASSIGN_OR_RETURN(const bool is_better, wants_most ? Less(runtime.budget(), best_key, key)
                                                              : Less(runtime.budget(), key, best_key));
      if (!is_better) continue;
    }
    is_first = false;
    best = element;
    best_key = key;
  }
  return best;
}

Result<Value> MinFilter(Runtime& runtime, const Value& self, const BoundArguments& arguments) {
  return Extreme(runtime, self, arguments, /*wants_most=*/false);
}

Result<Value> MaxFilter(Runtime& runtime, const Value& self, const BoundArguments& arguments) {
  return Extreme(runtime, self, arguments, /*wants_most=*/true);
}

Result<Value> SumFilter(Runtime& runtime, const Value& self, const BoundArguments& arguments) {
  KVERN_ASSIGN_OR_RETURN(const Value elements, Elements(runtime, self));
  Value sum = arguments[1] == nullptr ? Value::Int(0) : *arguments[1];
  if (sum.is_string()) return Status::InvalidArgument("sum cannot add strings, use join");
  for (Value element : elements.elements()) {
    if (IsGiven(arguments[0])) {
      KVERN_ASSIGN_OR_RETURN(element, MemberByPath(runtime, element, *arguments[0]));
    }
    KVERN_ASSIGN_OR_RETURN(sum, Arithmetic(runtime, Operator::kAdd, sum, element));
    runtime.budget().Touch(sum.own_bytes());
    if (runtime.budget().is_spent()) return runtime.budget().status();
  }
  return sum;
}

Result<Value> ItemsFilter(Runtime& runtime, const Value& self, const BoundArguments&) {
  std::vector<Value> items;
  if (self.is_undefined()) return runtime.Iterator(std::move(items));
  if (!self.is_dict()) {
    return runtime.Iterator({}, Status::InvalidArgument("items needs a map, found " + std::string(KindName(self))));
  }
  for (const auto& [key, value] : self.dict().entries) items.push_back(runtime.Tuple({key, value}));
  return runtime.Iterator(std::move(items));
}

Result<Value> BatchFilter(Runtime& runtime, const Value& self, const BoundArguments& arguments) {
  KVERN_ASSIGN_OR_RETURN(const int64_t size, IntegerArgument(*arguments[0], "the size of a batch"));
  if (size < 1 || size > 100'000) return Status::InvalidArgument("the size of a batch must lie between 1 and 100000");
  KVERN_ASSIGN_OR_RETURN(const Value elements, Elements(runtime, self));
  std::vector<Value> batches;
  std::vector<Value> batch;
  for (const Value& element : elements.elements()) {
    if (batch.size() == static_cast<size_t>(size)) batches.push_back(runtime.List(std::exchange(batch, {})));
    batch.push_back(element);
  }
  if (!batch.empty() && IsGiven(arguments[1])) batch.resize(static_cast<size_t>(size), *arguments[1]);
  if (!batch.empty()) batches.push_back(runtime.List(std::move(batch)));
  return runtime.Iterator(std::move(batches));
}

// object | attr("name"): like object.name, but never a member of a map.
Result<Value> AttrFilter(Runtime& runtime, const Value& self, const BoundArguments& arguments) {
  const std::string name = TextOf(runtime, *arguments[0]);
  if (self.is_dict() && FindMethod(Kind::kDict, name) == nullptr)
    return runtime.Undefined("a map has no attribute " + Quoted(name));
  return GetAttribute(runtime, self, name);
}

}  // namespace

std::span<const Builtin> SequenceFilters() {
  static constexpr Builtin kTable[] = {
      {"attr", "name", AttrFilter},
      {"batch", "linecount fill_with=", BatchFilter},
      {"count", "", LengthFilter},
      {"dictsort", "case_sensitive= by= reverse=", DictSortFilter},
      {"first", "", FirstFilter},
      {"items", "", ItemsFilter},
      {"last", "", LastFilter},
      {"length", "", LengthFilter},
      {"list", "", ListFilter},
      {"max", "case_sensitive= attribute=", MaxFilter},
      {"min", "case_sensitive= attribute=", MinFilter},
      {"reverse", "", ReverseFilter},
      {"sort", "reverse= case_sensitive= attribute=", SortFilter},
      {"sum", "attribute= start=", SumFilter},
      {"unique", "case_sensitive= attribute=", UniqueFilter},
  };
  return kTable;
}

}  // namespace kvern::jinja
