// The variables of a running template: a chain of scopes, looked up from the inside out.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "tokenizer/chat_template/ast.h"

namespace kvern::jinja {

// A macro keeps the scope that it was defined in; scopes only point to macros, which the rendering owns.
class Scope {
 public:
  explicit Scope(std::shared_ptr<const Scope> outer) : outer_(std::move(outer)) {}

  // nullptr where no scope has it.
  const Value* Find(Symbol symbol) const {
    for (const Scope* scope = this; scope != nullptr; scope = scope->outer_.get()) {
      for (const auto& [name, value] : scope->variables_) {
        if (name == symbol) return &value;
      }
    }
    return nullptr;
  }

  void Set(Symbol symbol, Value value) {
    for (auto& [name, old] : variables_) {
      if (name == symbol) {
        old = std::move(value);
        return;
      }
    }
    variables_.emplace_back(symbol, std::move(value));
  }

  void Clear() { variables_.clear(); }

 private:
  std::shared_ptr<const Scope> outer_;
  std::vector<std::pair<Symbol, Value>> variables_;
};

// A macro, or the body of a call block.
class MacroObject : public Object {
 public:
  MacroObject(Budget* budget, const Stmt& definition, std::shared_ptr<const Scope> around)
      : Object(budget, sizeof(MacroObject)), stmt(definition), scope(std::move(around)) {}
  const Stmt& stmt;
  const std::shared_ptr<const Scope> scope;
};

}  // namespace kvern::jinja
