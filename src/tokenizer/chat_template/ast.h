// A parsed template: statements and the expressions in them. Immutable once parsed.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tokenizer/chat_template/value.h"

namespace kvern::jinja {

struct Builtin;

// Names are numbered: symbols[i] of the Template.
using Symbol = uint32_t;

enum class Operator : uint8_t {
  kAdd,
  kSubtract,
  kMultiply,
  kDivide,
  kFloorDivide,
  kModulo,
  kPower,
  kNegate,
  kPlus,
  kEqual,
  kNotEqual,
  kLess,
  kLessEqual,
  kGreater,
  kGreaterEqual,
  kIn,
  kNotIn,
};

enum class ExprKind : uint8_t {
  kConstant,  // constant
  kName,      // symbol
  kList,      // parts
  kTuple,     // parts
  kDict,      // parts: key, value, key, value...
  kUnary,     // operators[0], parts[0]
  kBinary,    // operators[0], parts[0..1]
  kCompare,   // parts[0] operators[0] parts[1] operators[1] parts[2]...
  kAnd,
  kOr,           // parts[0..1]
  kNot,          // parts[0]
  kConcat,       // parts, joined as strings
  kConditional,  // parts: condition, then, else (may be null)
  kAttribute,    // parts[0].name
  kItem,         // parts[0][parts[1]]
  kSlice,        // parts[0][parts[1]:parts[2]:parts[3]]; these may be null
  kCall,         // parts[0](arguments)
  kFilter,       // parts[0] | name(arguments); parts[0] is null for the filter of a block
  kTest,         // parts[0] is name(arguments)
};

struct Expr;
using ExprPtr = std::unique_ptr<Expr>;

struct ArgumentExpr {
  enum class Kind : uint8_t { kPositional, kNamed, kSpread, kSpreadNamed } kind;
  std::string name;  // kNamed.
  ExprPtr value;
};

struct Expr {
  ExprKind kind;
  uint32_t offset;     // In the source: of its operator or first token.
  uint32_t depth = 1;  // Of the tree; bounded, so that walks over it may recurse.
  Symbol symbol = 0;
  Value constant;
  std::string name;
  const Builtin* builtin = nullptr;  // Of a filter or test; null where there is none of that name.
  std::vector<Operator> operators;
  std::vector<ExprPtr> parts;
  std::vector<ArgumentExpr> arguments;
};

enum class StmtKind : uint8_t {
  kText,      // text
  kPrint,     // value
  kIf,        // branches; else_body
  kFor,       // target, value; condition (may be null); is_recursive; body; else_body
  kSet,       // target, value
  kSetBlock,  // target; value: the filters (may be null); body
  kFilter,    // value: the filters; body
  kWith,      // bindings; body
  kScope,     // body, with variables of its own: {% generation %}
  kMacro,     // symbol, text: its name; parameters, takes_...; body
  kCall,      // value: a call; parameters, takes_...; body becomes its `caller`
  kBreak,
  kContinue,
};

struct Stmt;
using Block = std::vector<std::unique_ptr<Stmt>>;

struct Branch {
  ExprPtr condition;
  Block body;
};

struct Parameter {
  Symbol symbol;
  std::string name;
  ExprPtr default_value;  // May be null.
};

struct Stmt {
  StmtKind kind;
  uint32_t offset;
  std::string text;
  Symbol symbol = 0;
  ExprPtr target;  // kName, kTuple of targets, or (set only) kAttribute of a name.
  ExprPtr value;
  ExprPtr condition;
  std::vector<Branch> branches;
  std::vector<std::pair<ExprPtr, ExprPtr>> bindings;  // Target, value.
  std::vector<Parameter> parameters;
  bool is_recursive = false;                                               // kFor.
  bool takes_caller = false, takes_varargs = false, takes_kwargs = false;  // kMacro, kCall: the body reads these.
  Block body;
  Block else_body;
};

struct Template {
  std::string source;  // Normalized.
  std::vector<std::string> symbols;
  Block body;
};

}  // namespace kvern::jinja
