// The variables of a running template: a chain of scopes, looked up from the inside out.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "tokenizer/chat_template/ast.h"

namespace kvern::jinja {

// A macro keeps the scope that it was defined in; scopes only point to macros, which the rendering owns. A template may
// have thousands of variables: looking for one counts as work, keeping them as bytes held.
class Scope {
 public:
  // The outermost. `budget` must outlive it.
  explicit Scope(Budget& budget) : budget_(budget) {}
  explicit Scope(std::shared_ptr<const Scope> outer) : budget_(outer->budget_), outer_(std::move(outer)) {}
  ~Scope() { Clear(); }
  Scope(const Scope&) = delete;
  Scope& operator=(const Scope&) = delete;

  // nullptr where no scope has it.
  const Value* Find(Symbol symbol) const {
    for (const Scope* scope = this; scope != nullptr; scope = scope->outer_.get()) {
      if (const Variable* variable = scope->FindHere(symbol); variable != nullptr) return &variable->second;
    }
    return nullptr;
  }

  void Set(Symbol symbol, Value value) {
    if (const Variable* variable = FindHere(symbol); variable != nullptr) {
      const_cast<Variable*>(variable)->second = std::move(value);
    } else {
      budget_.Hold(sizeof(Variable));
      variables_.emplace_back(symbol, std::move(value));
    }
  }

  void Clear() {
    budget_.Release(variables_.size() * sizeof(Variable));
    variables_.clear();
  }

 private:
  using Variable = std::pair<Symbol, Value>;

  const Variable* FindHere(Symbol symbol) const {
    budget_.Touch(8 * variables_.size());
    for (const Variable& variable : variables_) {
      if (variable.first == symbol) return &variable;
    }
    return nullptr;
  }

  Budget& budget_;
  std::shared_ptr<const Scope> outer_;
  std::vector<Variable> variables_;
};

// A macro, or the body of a call block.
class MacroObject : public Object {
 public:
  MacroObject(Budget* budget, const Stmt& definition, std::shared_ptr<const Scope> around)
      : Object(budget, sizeof(MacroObject)), stmt(definition), scope(std::move(around)) {}
  const Stmt& stmt;
  const std::shared_ptr<const Scope> scope;
};

// The variable `loop` of a recursive for statement: loop(sequence) runs the statement again.
class RecursiveLoopObject : public LoopObject {
 public:
  RecursiveLoopObject(Budget* budget, Value items, const Stmt& statement, std::shared_ptr<Scope> around)
      : LoopObject(budget, std::move(items)), stmt(statement), scope(std::move(around)) {}
  const Stmt& stmt;
  const std::shared_ptr<Scope> scope;
};

}  // namespace kvern::jinja
