// Runtime: what filters, tests, methods and functions need of the rendering they run in.
#pragma once

#include <ctime>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tokenizer/chat_template/value.h"

namespace kvern::jinja {

class Runtime {
 public:
  // `budget` must outlive it; its values must not.
  Runtime(Budget& budget, const std::tm& now) : budget_(budget), now_(now) {}

  Budget& budget() { return budget_; }
  const std::tm& now() const { return now_; }

  Value Text(std::string text, bool is_markup = false) { return Value::String(&budget_, std::move(text), is_markup); }
  Value Undefined(std::string reason) { return Value::Undefined(&budget_, std::move(reason)); }
  Value List(std::vector<Value> elements) { return Value::List(&budget_, std::move(elements)); }
  Value Tuple(std::vector<Value> elements) { return Value::List(&budget_, std::move(elements), Kind::kTuple); }
  Value Dict(std::vector<std::pair<Value, Value>> entries) { return Value::Dict(&budget_, std::move(entries)); }
  // A lazy sequence of `elements`, after which comes `error` where making them failed.
  Value Iterator(std::vector<Value> elements, Status error = Status::Ok()) {
    Value list = List(std::move(elements));
    return Value::Shared(Kind::kIterator,
                         std::make_shared<IteratorObject>(&budget_, std::move(list), std::move(error)));
  }

  // Makes what lives until the end of the rendering.
  template <typename T, typename... Args>
  T* Own(Args&&... args) {
    auto object = std::make_unique<T>(std::forward<Args>(args)...);
    T* borrowed = object.get();
    owned_.push_back(std::move(object));
    return borrowed;
  }

 private:
  Budget& budget_;
  const std::tm& now_;
  std::vector<std::unique_ptr<Object>> owned_;
};

}  // namespace kvern::jinja
