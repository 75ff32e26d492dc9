#include "tokenizer/chat_template/evaluator.h"

#include "tokenizer/chat_template/lexer.h"
#include "tokenizer/chat_template/operations.h"
#include "tokenizer/quoted.h"

namespace kvern::jinja {

Status Evaluator::CheckLimits() {
  runtime_.budget().Step();
  if (runtime_.budget().is_spent()) return runtime_.budget().status();
  if (depth_ <= kMaxDepth) return Status::Ok();
  return Status::ResourceExhausted("the template nests its calls deeper than " + std::to_string(kMaxDepth) + " levels");
}

Status Evaluator::At(uint32_t offset, const Status& status) {
  if (is_placed_) return status;
  is_placed_ = true;
  // What comes after a limit is only its consequence.
  const Status cause = runtime_.budget().is_spent() ? runtime_.budget().status() : status;
  return Status(cause.code(), PlaceText(parsed_.source, offset) + cause.message());
}

Result<Value> Evaluator::Eval(const Expr& expr, const Scope& scope) {
  const Level level(*this);
  const Status limits = CheckLimits();
  if (!limits.ok()) return At(expr.offset, limits);
  Result<Value> value = Dispatch(expr, scope);
  if (!value.ok()) return At(expr.offset, value.status());
  return value;
}

Result<Value> Evaluator::EvalFilters(const Expr& filters, const Value& text, const Scope& scope) {
  block_text_ = &text;  // Read before anything else is evaluated.
  return Eval(filters, scope);
}

Result<Value> Evaluator::Dispatch(const Expr& expr, const Scope& scope) {
  switch (expr.kind) {
    case ExprKind::kConstant: return expr.constant;
    case ExprKind::kName: return EvalName(expr, scope);
    case ExprKind::kList:
    case ExprKind::kTuple: {
      KVERN_ASSIGN_OR_RETURN(std::vector<Value> elements, EvalAll(expr.parts, scope));
      return expr.kind == ExprKind::kList ? runtime_.List(std::move(elements)) : runtime_.Tuple(std::move(elements));
    }
    case ExprKind::kDict: return EvalDict(expr, scope);
    case ExprKind::kUnary: return EvalUnary(expr, scope);
    case ExprKind::kBinary: return EvalBinary(expr, scope);
    case ExprKind::kCompare: return EvalCompare(expr, scope);
    case ExprKind::kAnd:
    case ExprKind::kOr:
    case ExprKind::kNot: return EvalLogic(expr, scope);
    case ExprKind::kConcat: return EvalConcat(expr, scope);
    case ExprKind::kConditional: return EvalConditional(expr, scope);
    case ExprKind::kAttribute:
    case ExprKind::kItem: return EvalAccess(expr, scope);
    case ExprKind::kSlice: return EvalSlice(expr, scope);
    case ExprKind::kCall: return EvalCall(expr, scope);
    case ExprKind::kFilter: return EvalFilter(expr, scope);
    case ExprKind::kTest: return EvalTest(expr, scope);
  }
  return Value();
}

Result<Value> Evaluator::EvalName(const Expr& expr, const Scope& scope) {
  if (const Value* value = scope.Find(expr.symbol); value != nullptr) return *value;
  return runtime_.Undefined(Quoted(parsed_.symbols[expr.symbol]) + " is undefined");
}

Result<std::vector<Value>> Evaluator::EvalAll(const std::vector<ExprPtr>& exprs, const Scope& scope) {
  std::vector<Value> values;
  values.reserve(exprs.size());
  for (const ExprPtr& expr : exprs) {
    KVERN_ASSIGN_OR_RETURN(Value value, Eval(*expr, scope));
    values.push_back(std::move(value));
  }
  return values;
}

Result<Value> Evaluator::EvalDict(const Expr& expr, const Scope& scope) {
  KVERN_ASSIGN_OR_RETURN(const std::vector<Value> parts, EvalAll(expr.parts, scope));
  std::vector<std::pair<Value, Value>> entries;
  for (size_t i = 0; i < parts.size(); i += 2) {
    if (!IsHashable(parts[i])) {
      return Status::InvalidArgument(std::string(KindName(parts[i])) + " cannot be a key of a map");
    }
    entries.emplace_back(parts[i], parts[i + 1]);
  }
  return runtime_.Dict(std::move(entries));
}

Result<Value> Evaluator::EvalUnary(const Expr& expr, const Scope& scope) {
  KVERN_ASSIGN_OR_RETURN(const Value operand, Eval(*expr.parts[0], scope));
  return Negative(expr.operators[0], operand);
}

Result<Value> Evaluator::EvalBinary(const Expr& expr, const Scope& scope) {
  KVERN_ASSIGN_OR_RETURN(const Value left, Eval(*expr.parts[0], scope));
  KVERN_ASSIGN_OR_RETURN(const Value right, Eval(*expr.parts[1], scope));
  return Arithmetic(runtime_, expr.operators[0], left, right);
}

Result<Value> Evaluator::EvalCompare(const Expr& expr, const Scope& scope) {
  KVERN_ASSIGN_OR_RETURN(Value left, Eval(*expr.parts[0], scope));
  for (size_t i = 0; i < expr.operators.size(); ++i) {
    KVERN_ASSIGN_OR_RETURN(Value right, Eval(*expr.parts[i + 1], scope));
    KVERN_ASSIGN_OR_RETURN(const bool holds, Compare(runtime_, expr.operators[i], left, right));
    if (!holds) return Value::Bool(false);
    left = std::move(right);
  }
  return Value::Bool(true);
}

Result<Value> Evaluator::EvalLogic(const Expr& expr, const Scope& scope) {
  KVERN_ASSIGN_OR_RETURN(Value left, Eval(*expr.parts[0], scope));
  if (expr.kind == ExprKind::kNot) return Value::Bool(!left.IsTrue());
  if (left.IsTrue() == (expr.kind == ExprKind::kOr)) return left;
  return Eval(*expr.parts[1], scope);
}

Result<Value> Evaluator::EvalConcat(const Expr& expr, const Scope& scope) {
  std::string text;
  for (const ExprPtr& part : expr.parts) {
    KVERN_ASSIGN_OR_RETURN(const Value value, Eval(*part, scope));
    text += TextOf(runtime_, value);
    if (!runtime_.budget().Fits(text.size())) return runtime_.budget().status();
  }
  return runtime_.Text(std::move(text));
}

Result<Value> Evaluator::EvalConditional(const Expr& expr, const Scope& scope) {
  KVERN_ASSIGN_OR_RETURN(const Value condition, Eval(*expr.parts[0], scope));
  if (condition.IsTrue()) return Eval(*expr.parts[1], scope);
  if (expr.parts[2] != nullptr) return Eval(*expr.parts[2], scope);
  return runtime_.Undefined("this 'if' is false and has no 'else'");
}

Result<Value> Evaluator::EvalAccess(const Expr& expr, const Scope& scope) {
  KVERN_ASSIGN_OR_RETURN(const Value object, Eval(*expr.parts[0], scope));
  if (expr.kind == ExprKind::kAttribute) return GetAttribute(runtime_, object, expr.name);
  KVERN_ASSIGN_OR_RETURN(const Value key, Eval(*expr.parts[1], scope));
  return GetItem(runtime_, object, key);
}

Result<Value> Evaluator::EvalSlice(const Expr& expr, const Scope& scope) {
  KVERN_ASSIGN_OR_RETURN(const Value object, Eval(*expr.parts[0], scope));
  Value bounds[3];
  const Value* given[3] = {};
  for (size_t i = 0; i < 3; ++i) {
    if (expr.parts[i + 1] == nullptr) continue;
    KVERN_ASSIGN_OR_RETURN(bounds[i], Eval(*expr.parts[i + 1], scope));
    given[i] = &bounds[i];
  }
  return GetSlice(runtime_, object, given[0], given[1], given[2]);
}

Result<Arguments> Evaluator::EvalArguments(const std::vector<ArgumentExpr>& exprs, const Scope& scope) {
  Arguments arguments;
  for (const ArgumentExpr& expr : exprs) {
    KVERN_ASSIGN_OR_RETURN(Value value, Eval(*expr.value, scope));
    switch (expr.kind) {
      case ArgumentExpr::Kind::kPositional: arguments.positional.push_back(std::move(value)); break;
      case ArgumentExpr::Kind::kNamed: arguments.named.emplace_back(expr.name, std::move(value)); break;
      case ArgumentExpr::Kind::kSpread: {
        KVERN_ASSIGN_OR_RETURN(const Value elements, Elements(runtime_, value));
        arguments.positional.insert(arguments.positional.end(), elements.elements().begin(), elements.elements().end());
        break;
      }
      case ArgumentExpr::Kind::kSpreadNamed:
        if (!value.is_dict()) return Status::InvalidArgument("** needs a map, found " + std::string(KindName(value)));
        for (const auto& [key, member] : value.dict().entries) {
          if (!key.is_string()) return Status::InvalidArgument("the keys of a map after ** must be strings");
          arguments.named.emplace_back(key.text(), member);
        }
    }
  }
  return arguments;
}

Result<Value> Evaluator::EvalCall(const Expr& expr, const Scope& scope) {
  const Expr& callee = *expr.parts[0];
  if (callee.kind == ExprKind::kAttribute) {  // Without a value for the method itself.
    KVERN_ASSIGN_OR_RETURN(const Value object, Eval(*callee.parts[0], scope));
    if (const Builtin* method = FindMethod(object.kind(), callee.name); method != nullptr) {
      KVERN_ASSIGN_OR_RETURN(const Arguments arguments, EvalArguments(expr.arguments, scope));
      return RunBuiltin(runtime_, *method, object, arguments);
    }
    KVERN_ASSIGN_OR_RETURN(const Value member, GetAttribute(runtime_, object, callee.name));
    KVERN_ASSIGN_OR_RETURN(const Arguments arguments, EvalArguments(expr.arguments, scope));
    return Call(member, arguments);
  }
  KVERN_ASSIGN_OR_RETURN(const Value function, Eval(callee, scope));
  KVERN_ASSIGN_OR_RETURN(const Arguments arguments, EvalArguments(expr.arguments, scope));
  return Call(function, arguments);
}

Result<Value> Evaluator::Call(const Value& callee, const Arguments& arguments) {
  switch (callee.kind()) {
    case Kind::kMacro: return CallMacro(callee.as<MacroObject>(), arguments);
    case Kind::kLoop: return CallLoop(callee.as<LoopObject>(), arguments);
    case Kind::kFunction: return RunBuiltin(runtime_, callee.as<FunctionObject>().builtin, Value(), arguments);
    case Kind::kMethod: {
      const auto& method = callee.as<MethodObject>();
      return RunBuiltin(runtime_, method.builtin, method.self, arguments);
    }
    case Kind::kUndefined: return Status::InvalidArgument(std::string(callee.reason()));
    default: return Status::InvalidArgument(std::string(KindName(callee)) + " cannot be called");
  }
}

Result<Value> Evaluator::EvalFilter(const Expr& expr, const Scope& scope) {
  Value input;
  if (expr.parts[0] == nullptr) {
    input = *block_text_;
  } else {
    KVERN_ASSIGN_OR_RETURN(input, Eval(*expr.parts[0], scope));
  }
  if (expr.builtin == nullptr) return Status::Unsupported("there is no filter " + Quoted(expr.name));
  KVERN_ASSIGN_OR_RETURN(const Arguments arguments, EvalArguments(expr.arguments, scope));
  return RunBuiltin(runtime_, *expr.builtin, input, arguments);
}

Result<Value> Evaluator::EvalTest(const Expr& expr, const Scope& scope) {
  KVERN_ASSIGN_OR_RETURN(const Value value, Eval(*expr.parts[0], scope));
  if (expr.builtin == nullptr) return Status::Unsupported("there is no test " + Quoted(expr.name));
  KVERN_ASSIGN_OR_RETURN(const Arguments arguments, EvalArguments(expr.arguments, scope));
  return RunBuiltin(runtime_, *expr.builtin, value, arguments);
}

}  // namespace kvern::jinja
