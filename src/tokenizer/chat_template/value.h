// Value: what an expression of a template evaluates to, with the types of the Python objects that Jinja works on.
//
// Strings, lists, tuples and maps are immutable and shared. What may come to hold itself while a template runs
// (namespaces, loops, macros) belongs to the rendering, which frees it at its end (Runtime::Own); values only point to
// it, so no cycle of owners can arise. Lists and maps know how deeply they nest and how large they are written out, and
// are refused when made where that is too much, so walks over them may recurse and end in time.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tokenizer/chat_template/budget.h"

namespace kvern::jinja {

enum class Kind : uint8_t {
  kUndefined,  // A name or member that is not there. Prints as nothing; most other uses are errors.
  kNone,
  kBool,
  kInt,
  kFloat,
  kString,
  kList,
  kTuple,
  kRange,
  kDict,
  kDictView,  // What items(), keys() and values() of a map give.
  kIterator,  // A lazy sequence: can be walked once.
  kNamespace,
  kLoop,
  kMacro,
  kFunction,  // A global such as range.
  kMethod,    // obj.method without a call.
};

// Of a value written out: a list that holds one list twice counts it twice.
struct Extent {
  uint32_t depth = 0;  // Lists and maps inside each other; 0 for what is neither.
  uint64_t num_bytes = 16;
};

constexpr uint32_t kMaxValueDepth = 100;

// What a Value shares. Its bytes count as held while it lives; `budget` is null for the constants of a template.
class Object {
 public:
  Object(Budget* budget, uint64_t num_bytes) : budget_(budget), num_bytes_(num_bytes) {
    if (budget_ != nullptr) budget_->Hold(num_bytes_);
  }
  virtual ~Object() {
    if (budget_ != nullptr) budget_->Release(num_bytes_);
  }
  Object(const Object&) = delete;
  Object& operator=(const Object&) = delete;

 private:
  Budget* budget_;
  uint64_t num_bytes_;
};

class Value {
 public:
  Value() = default;  // Undefined without a reason.
  static Value None() { return Value(Kind::kNone); }
  static Value Bool(bool value);
  static Value Int(int64_t value);
  static Value Float(double value);
  // `reason` is the sentence of the error that using it gives: "'x' is undefined".
  static Value Undefined(Budget* budget, std::string reason);
  // `is_markup`: Python's Markup, which escapes what is added to it (the filters safe and escape).
  static Value String(Budget* budget, std::string text, bool is_markup = false);
  // kList or kTuple. Where it nests too deeply or is too large it is empty and the budget is spent.
  static Value List(Budget* budget, std::vector<Value> elements, Kind kind = Kind::kList);
  // Of equal keys the last value counts, at the place of the first.
  static Value Dict(Budget* budget, std::vector<std::pair<Value, Value>> entries);
  // range(begin, end, step), whose numbers are `elements`.
  static Value Range(Budget* budget, std::vector<Value> elements, int64_t begin, int64_t end, int64_t step);
  static Value View(Budget* budget, std::vector<Value> elements, std::string_view name);
  static Value Shared(Kind kind, std::shared_ptr<const Object> object) { return Value(kind, std::move(object)); }
  // Points to what the rendering owns.
  static Value Borrowed(Kind kind, const Object* object) {
    return Value(kind, std::shared_ptr<const Object>(std::shared_ptr<const Object>(), object));
  }

  Kind kind() const { return kind_; }
  bool is(Kind kind) const { return kind_ == kind; }
  bool is_undefined() const { return kind_ == Kind::kUndefined; }
  bool is_none() const { return kind_ == Kind::kNone; }
  bool is_string() const { return kind_ == Kind::kString; }
  bool is_dict() const { return kind_ == Kind::kDict; }
  // Python's bool is an int.
  bool is_integral() const { return kind_ == Kind::kInt || kind_ == Kind::kBool; }
  bool is_number() const { return is_integral() || kind_ == Kind::kFloat; }
  // Elements in order that can be indexed.
  bool is_sequence() const { return kind_ == Kind::kList || kind_ == Kind::kTuple || kind_ == Kind::kRange; }
  bool is_markup() const;

  // Of the kinds named; the caller has checked.
  int64_t integer() const { return integer_; }  // kInt, kBool.
  double number() const { return kind_ == Kind::kFloat ? float_ : static_cast<double>(integer_); }
  std::string_view text() const;               // kString.
  std::string_view reason() const;             // kUndefined.
  const std::vector<Value>& elements() const;  // is_sequence(), kDictView.
  const class DictObject& dict() const;
  template <typename T>
  T& as() const {
    return const_cast<T&>(static_cast<const T&>(*object_));
  }
  const Object* identity() const { return object_.get(); }

  // Python's truth value.
  bool IsTrue() const;
  Extent extent() const;
  // What going through it once costs, elements of elements not included: bytes of a string, 8 for each element.
  uint64_t own_bytes() const;

 private:
  explicit Value(Kind kind) : kind_(kind) {}
  Value(Kind kind, std::shared_ptr<const Object> object) : kind_(kind), object_(std::move(object)) {}

  Kind kind_ = Kind::kUndefined;
  union {
    int64_t integer_ = 0;
    double float_;
  };
  std::shared_ptr<const Object> object_;
};

class TextObject : public Object {
 public:
  TextObject(Budget* budget, std::string words, bool markup)
      : Object(budget, sizeof(TextObject) + words.capacity()), text(std::move(words)), is_markup(markup) {}
  const std::string text;
  const bool is_markup;
};

class ListObject : public Object {
 public:
  ListObject(Budget* budget, std::vector<Value> items, Extent whole)
      : Object(budget, sizeof(ListObject) + items.capacity() * sizeof(Value)),
        elements(std::move(items)),
        extent(whole) {}
  const std::vector<Value> elements;
  const Extent extent;
};

class RangeObject : public ListObject {
 public:
  RangeObject(Budget* budget, std::vector<Value> items, Extent whole, int64_t first, int64_t stop, int64_t stride)
      : ListObject(budget, std::move(items), whole), begin(first), end(stop), step(stride) {}
  const int64_t begin, end, step;
};

// items(), keys() or values() of a map, copied.
class ViewObject : public ListObject {
 public:
  ViewObject(Budget* budget, std::vector<Value> items, Extent whole, std::string_view python_name)
      : ListObject(budget, std::move(items), whole), name(python_name) {}
  const std::string_view name;  // "dict_items"
};

class DictObject : public Object {
 public:
  DictObject(Budget* budget, std::vector<std::pair<Value, Value>> pairs, Extent whole);
  // nullptr where there is none.
  const Value* Find(const Value& key) const;
  const Value* Find(std::string_view key) const;

  std::vector<std::pair<Value, Value>> entries;
  const Extent extent;

 private:
  // Place of each key, by KeyText. A tree, as keys come from clients who might choose them to collide.
  std::map<std::string, size_t, std::less<>> places_;
};

// Walked once: `next` is the element to come. Where making the elements failed, `error` comes after them.
class IteratorObject : public Object {
 public:
  IteratorObject(Budget* budget, Value items, Status failure)
      : Object(budget, sizeof(IteratorObject)), list(std::move(items)), error(std::move(failure)) {}
  Value list;
  size_t next = 0;
  Status error;
};

class NamespaceObject : public Object {
 public:
  explicit NamespaceObject(Budget* budget) : Object(budget, sizeof(NamespaceObject)) {}
  std::map<std::string, Value, std::less<>> members;
};

// The variable `loop` of a for statement.
class LoopObject : public Object {
 public:
  LoopObject(Budget* budget, Value items)
      : Object(budget, sizeof(LoopObject)), elements(std::move(items)), length(elements.elements().size()) {}
  Value elements;  // A list.
  const size_t length;
  size_t index = 0;
  uint32_t depth = 1;  // Deeper where a recursive loop has called itself.
  std::vector<Value> last_changed;
  bool has_changed_before = false;

  // The loop is over. It may live on in a namespace, its elements do not.
  void End() {
    elements = Value();
    last_changed.clear();
  }
};

// "a string", "a list", "an undefined value": for messages.
std::string_view KindName(const Value& value);

// Whether Python can use it as a key of a map.
bool IsHashable(const Value& value);
// Equal for equal keys: 1, 1.0 and true are one key.
std::string KeyText(const Value& value);

}  // namespace kvern::jinja
