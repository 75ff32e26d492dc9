// What Python's operators and Jinja's ways of access do with values. Errors (kInvalidArgument) carry no place.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kvern/status.h"
#include "tokenizer/chat_template/ast.h"
#include "tokenizer/chat_template/runtime.h"

namespace kvern::jinja {

// object.name and object[key]; undefined where there is no such thing, an error only for members of undefined values.
Result<Value> GetAttribute(Runtime& runtime, const Value& object, std::string_view name);
Result<Value> GetItem(Runtime& runtime, const Value& object, const Value& key);
// object[begin:end:step]; null bounds as in Python.
Result<Value> GetSlice(Runtime& runtime, const Value& object, const Value* begin, const Value* end, const Value* step);

// What a loop over `value` sees, as a value with elements(): the keys of a map, the characters of a string. Uses up a
// lazy sequence.
Result<Value> Elements(Runtime& runtime, const Value& value);
// Whether Elements would work.
bool IsIterable(const Value& value);
// Python's len.
Result<int64_t> Length(const Value& value);

// What `dict` has under `key`, which IsHashable; nullptr for nothing. Reading the key counts as work.
const Value* FindKey(Budget& budget, const DictObject& dict, const Value& key);
bool Equal(Budget& budget, const Value& a, const Value& b);
// a < b, for numbers, strings, lists and tuples.
Result<bool> Less(Budget& budget, const Value& a, const Value& b);
Result<bool> Contains(Runtime& runtime, const Value& container, const Value& item);
// One of the comparisons.
Result<bool> Compare(Runtime& runtime, Operator op, const Value& a, const Value& b);
// One of the arithmetic operators, a sequence's + and *, and % of a string.
Result<Value> Arithmetic(Runtime& runtime, Operator op, const Value& a, const Value& b);
Result<Value> Negative(Operator sign, const Value& a);

// `text` % `values`: %s %r %d %i %x %o %e %f %g %c %%, with flags, width and precision.
Result<Value> FormatPercent(Runtime& runtime, const Value& text, const Value& values);

// The integer (or boolean) that `value` is; else the error names `what`: "the width is a string, expected an integer".
Result<int64_t> IntegerArgument(const Value& value, std::string_view what);

}  // namespace kvern::jinja
