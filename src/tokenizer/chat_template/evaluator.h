// Evaluates the expressions of a template. What runs statements (interpreter.cc) derives from it and calls macros.
#pragma once

#include <memory>
#include <string>

#include "kvern/status.h"
#include "tokenizer/chat_template/builtins.h"
#include "tokenizer/chat_template/runtime.h"
#include "tokenizer/chat_template/scope.h"

namespace kvern::jinja {

// Calls of Eval, Exec and macros inside each other, all together. Each needs up to a kilobyte of stack.
constexpr uint32_t kMaxDepth = 1000;

class Evaluator {
 public:
  // Both must outlive it.
  Evaluator(const Template& parsed, Runtime& runtime) : parsed_(parsed), runtime_(runtime) {}
  virtual ~Evaluator() = default;

  Result<Value> Eval(const Expr& expr, const Scope& scope);
  // Runs the filters of a block, whose innermost input is left open, on its text.
  Result<Value> EvalFilters(const Expr& filters, const Value& text, const Scope& scope);

 protected:
  virtual Result<Value> CallMacro(const MacroObject& macro, const Arguments& arguments) = 0;
  virtual Result<Value> CallLoop(const LoopObject& loop, const Arguments& arguments) = 0;

  // Counts one level of recursion for as long as it lives.
  class Level {
   public:
    explicit Level(Evaluator& evaluator) : evaluator_(evaluator) { ++evaluator_.depth_; }
    ~Level() { --evaluator_.depth_; }

   private:
    Evaluator& evaluator_;
  };
  // One step; an error where a limit is reached.
  Status CheckLimits();
  // The error with the place in front, unless an inner part has put its own there.
  Status At(uint32_t offset, const Status& status);

  Result<Value> Call(const Value& callee, const Arguments& arguments);
  Result<Arguments> EvalArguments(const std::vector<ArgumentExpr>& exprs, const Scope& scope);

  const Template& parsed_;
  Runtime& runtime_;

 private:
  Result<Value> Dispatch(const Expr& expr, const Scope& scope);
  Result<Value> EvalName(const Expr& expr, const Scope& scope);
  Result<std::vector<Value>> EvalAll(const std::vector<ExprPtr>& exprs, const Scope& scope);
  Result<Value> EvalDict(const Expr& expr, const Scope& scope);
  Result<Value> EvalUnary(const Expr& expr, const Scope& scope);
  Result<Value> EvalBinary(const Expr& expr, const Scope& scope);
  Result<Value> EvalCompare(const Expr& expr, const Scope& scope);
  Result<Value> EvalLogic(const Expr& expr, const Scope& scope);
  Result<Value> EvalConcat(const Expr& expr, const Scope& scope);
  Result<Value> EvalConditional(const Expr& expr, const Scope& scope);
  Result<Value> EvalAccess(const Expr& expr, const Scope& scope);
  Result<Value> EvalSlice(const Expr& expr, const Scope& scope);
  Result<Value> EvalCall(const Expr& expr, const Scope& scope);
  Result<Value> EvalFilter(const Expr& expr, const Scope& scope);
  Result<Value> EvalTest(const Expr& expr, const Scope& scope);

  uint32_t depth_ = 0;
  bool is_placed_ = false;             // The error on its way out has its place.
  const Value* block_text_ = nullptr;  // Input of the filters of a block.
};

}  // namespace kvern::jinja
