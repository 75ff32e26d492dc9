// Filters that go through a sequence with another filter or a test: map, select, reject, selectattr, rejectattr. Their
// results are lazy: an error in them counts only where they are read.
#include "tokenizer/chat_template/filters.h"
#include "tokenizer/chat_template/operations.h"
#include "tokenizer/chat_template/text.h"
#include "tokenizer/quoted.h"

namespace kvern::jinja {
namespace {

// The arguments after the first `count`.
Arguments Rest(const Arguments& all, size_t count) {
  Arguments rest = all;
  rest.positional.erase(rest.positional.begin(), rest.positional.begin() + static_cast<std::ptrdiff_t>(count));
  return rest;
}

Result<std::string> NameArgument(const Arguments& all, size_t index, std::string_view what) {
  if (index >= all.positional.size() || !all.positional[index].is_string()) {
    return Status::InvalidArgument("expected the name of " + std::string(what) + " as a string");
  }
  return std::string(all.positional[index].text());
}

// Applies `make` to each element of `self`, which is none where it is empty or undefined; `make` may leave one out.
template <typename Make>
Result<Value> Lazily(Runtime& runtime, const Value& self, const Make& make) {
  std::vector<Value> results;
  if (!self.IsTrue()) return runtime.Iterator(std::move(results));
  const auto elements = Elements(runtime, self);
  if (!elements.ok()) return runtime.Iterator(std::move(results), elements.status());
  for (const Value& element : elements->elements()) {
    const Status status = make(element, results);
    runtime.budget().Step();
    if (runtime.budget().is_spent()) return runtime.budget().status();
    if (!status.ok()) return runtime.Iterator(std::move(results), status);
  }
  return runtime.Iterator(std::move(results));
}

// map(attribute="a.b", default=x)
Result<Value> MapAttribute(Runtime& runtime, const Value& self, const Arguments& arguments) {
  const Value* attribute = nullptr;
  const Value* otherwise = nullptr;
  for (const auto& [name, value] : arguments.named) {
    if (name == "attribute") attribute = &value;
    if (name == "default" && !value.is_none()) otherwise = &value;
    if (name != "attribute" && name != "default")
      return Status::InvalidArgument("there is no argument " + Quoted(name) + " of 'map'");
  }
  return Lazily(runtime, self, [&](const Value& element, std::vector<Value>& results) {
    KVERN_ASSIGN_OR_RETURN(Value member, MemberByPath(runtime, element, *attribute, otherwise));
    results.push_back(std::move(member));
    return Status::Ok();
  });
}

Result<Value> MapFilter(Runtime& runtime, const Value& self, const BoundArguments& bound) {
  const Arguments& all = bound.all();
  for (const auto& [name, value] : all.named) {
    if (name == "attribute" && all.positional.empty()) return MapAttribute(runtime, self, all);
  }
  KVERN_ASSIGN_OR_RETURN(const std::string name, NameArgument(all, 0, "a filter"));
  const Builtin* filter = FindFilter(name);
  const Arguments rest = Rest(all, 1);
  return Lazily(runtime, self, [&](const Value& element, std::vector<Value>& results) {
    if (filter == nullptr) return Status::InvalidArgument("there is no filter " + Quoted(name));
    KVERN_ASSIGN_OR_RETURN(Value result, RunBuiltin(runtime, *filter, element, rest));
    results.push_back(std::move(result));
    return Status::Ok();
  });
}

// Keeps the elements for which the test named by the arguments (default: their truth) gives `wanted`. With `by_member`
// the first argument names the member that is tested.
Result<Value> Select(Runtime& runtime, const Value& self, const Arguments& all, bool by_member, bool wanted) {
  const size_t name_at = by_member ? 1 : 0;
  if (by_member && all.positional.empty()) return Status::InvalidArgument("expected the name of a member");
  const bool has_test = all.positional.size() > name_at;
  std::string name;
  if (has_test) {
    KVERN_ASSIGN_OR_RETURN(name, NameArgument(all, name_at, "a test"));
  }
  const Builtin* test = FindTest(name);
  const Arguments rest = has_test ? Rest(all, name_at + 1) : Arguments{};
  return Lazily(runtime, self, [&](const Value& element, std::vector<Value>& results) {
    Value tested = element;
    if (by_member) {
      KVERN_ASSIGN_OR_RETURN(tested, MemberByPath(runtime, element, all.positional[0]));
    }
    if (has_test) {
      if (test == nullptr) return Status::InvalidArgument("there is no test " + Quoted(name));
      KVERN_ASSIGN_OR_RETURN(tested, RunBuiltin(runtime, *test, tested, rest));
    }
    if (tested.IsTrue() == wanted) results.push_back(element);
    return Status::Ok();
  });
}

Result<Value> SelectFilter(Runtime& runtime, const Value& self, const BoundArguments& arguments) {
  return Select(runtime, self, arguments.all(), /*by_member=*/false, /*wanted=*/true);
}
Result<Value> RejectFilter(Runtime& runtime, const Value& self, const BoundArguments& arguments) {
  return Select(runtime, self, arguments.all(), /*by_member=*/false, /*wanted=*/false);
}
Result<Value> SelectAttrFilter(Runtime& runtime, const Value& self, const BoundArguments& arguments) {
  return Select(runtime, self, arguments.all(), /*by_member=*/true, /*wanted=*/true);
}
Result<Value> RejectAttrFilter(Runtime& runtime, const Value& self, const BoundArguments& arguments) {
  return Select(runtime, self, arguments.all(), /*by_member=*/true, /*wanted=*/false);
}

}  // namespace

std::span<const Builtin> SelectionFilters() {
  static constexpr Builtin kTable[] = {
      {"map", "*", MapFilter},       {"reject", "*", RejectFilter},         {"rejectattr", "*", RejectAttrFilter},
      {"select", "*", SelectFilter}, {"selectattr", "*", SelectAttrFilter},
  };
  return kTable;
}

}  // namespace kvern::jinja
