#include "tokenizer/chat_template/interpreter.h"

#include <algorithm>
#include <map>

#include "tokenizer/chat_template/evaluator.h"
#include "tokenizer/chat_template/operations.h"
#include "tokenizer/chat_template/parser.h"
#include "tokenizer/quoted.h"

namespace kvern::jinja {
namespace {

enum class Flow { kNext, kBreak, kContinue };

// Text being written; its bytes count as held.
class Output {
 public:
  explicit Output(Budget& budget) : budget_(budget) {}
  ~Output() { budget_.Release(text_.size()); }
  Output(const Output&) = delete;
  Output& operator=(const Output&) = delete;

  void Append(std::string_view text) {
    text_ += text;
    budget_.Hold(text.size());
  }
  size_t size() const { return text_.size(); }
  // The text; what is left here is empty.
  std::string Take() {
    budget_.Release(text_.size());
    return std::exchange(text_, {});
  }

 private:
  Budget& budget_;
  std::string text_;
};

class Interpreter : public Evaluator {
 public:
  Interpreter(const Template& parsed, Runtime& runtime, const ChatLimits& limits)
      : Evaluator(parsed, runtime), limits_(limits) {}

  Result<std::string> Run(const std::vector<Variable>& variables) {
    const auto scope = std::make_shared<Scope>(runtime_.budget());
    KVERN_RETURN_IF_ERROR(SetUp(variables, *scope));
    return Captured(parsed_.body, scope);
  }

 private:
  using ScopePtr = std::shared_ptr<Scope>;

  // Functions and variables that the template names at all.
  Status SetUp(const std::vector<Variable>& variables, Scope& scope) {
    for (Symbol symbol = 0; symbol < parsed_.symbols.size(); ++symbol) {
      const std::string& name = parsed_.symbols[symbol];
      if (const Builtin* function = FindFunction(name); function != nullptr) {
        scope.Set(symbol, Value::Borrowed(Kind::kFunction, runtime_.Own<FunctionObject>(*function)));
      }
      const auto given = std::find_if(variables.rbegin(), variables.rend(),
                                      [&name](const Variable& variable) { return variable.name == name; });
      if (given == variables.rend()) continue;
      auto value = std::visit([this](const auto* from) { return FromChat(*from, 0); }, given->value);
      if (!value.ok()) {
        return Status(value.status().code(), "the variable " + Quoted(name) + ": " + value.status().message());
      }
      scope.Set(symbol, std::move(*value));
    }
    return Status::Ok();
  }

  Result<Value> FromChat(const ChatValue& from, uint32_t depth) {
    if (const bool* value = from.AsBool()) return Value::Bool(*value);
    if (const int64_t* value = from.AsInt()) return Value::Int(*value);
    if (const double* value = from.AsDouble()) return Value::Float(*value);
    if (const std::string* value = from.AsString()) return runtime_.Text(*value);
    if (const ChatValue::List* list = from.AsList()) return FromChat(*list, depth);
    if (const ChatValue::Map* map = from.AsMap()) return FromChat(*map, depth);
    return Value::None();
  }

  Result<Value> FromChat(const ChatValue::List& from, uint32_t depth) {
    KVERN_RETURN_IF_ERROR(CheckInput(depth));
    std::vector<Value> elements;
    for (const ChatValue& element : from) {
      KVERN_ASSIGN_OR_RETURN(Value value, FromChat(element, depth + 1));
      elements.push_back(std::move(value));
    }
    return runtime_.List(std::move(elements));
  }

  Result<Value> FromChat(const ChatValue::Map& from, uint32_t depth) {
    KVERN_RETURN_IF_ERROR(CheckInput(depth));
    std::vector<std::pair<Value, Value>> entries;
    for (const auto& [key, member] : from) {
      KVERN_ASSIGN_OR_RETURN(Value value, FromChat(member, depth + 1));
      entries.emplace_back(runtime_.Text(key), std::move(value));
    }
    return runtime_.Dict(std::move(entries));
  }

  Status CheckInput(uint32_t depth) {
    if (depth < kMaxValueDepth) return runtime_.budget().status();
    return Status::InvalidArgument("lists and maps are nested deeper than " + std::to_string(kMaxValueDepth));
  }

  Result<Flow> Exec(const Block& block, const ScopePtr& scope) {
    const Level level(*this);
    for (const auto& stmt : block) {
      const Status limits = CheckLimits();
      if (!limits.ok()) return At(stmt->offset, limits);
      const Result<Flow> flow = ExecOne(*stmt, scope);
      if (!flow.ok()) return At(stmt->offset, flow.status());
      if (*flow != Flow::kNext) return *flow;
    }
    return Flow::kNext;
  }

  Result<Flow> ExecOne(const Stmt& stmt, const ScopePtr& scope) {
    switch (stmt.kind) {
      case StmtKind::kText: return Done(Write(stmt.text));
      case StmtKind::kPrint: return Done(Print(stmt, *scope));
      case StmtKind::kIf: return If(stmt, scope);
      case StmtKind::kFor: return For(stmt, scope);
      case StmtKind::kSet: return Done(Set(stmt, *scope));
      case StmtKind::kSetBlock: return Done(SetBlock(stmt, scope));
      case StmtKind::kFilter: return Done(FilterBlock(stmt, scope));
      case StmtKind::kWith: return With(stmt, scope);
      case StmtKind::kScope: return Exec(stmt.body, std::make_shared<Scope>(scope));
      case StmtKind::kMacro:
        scope->Set(stmt.symbol,
                   Value::Borrowed(Kind::kMacro, runtime_.Own<MacroObject>(&runtime_.budget(), stmt, scope)));
        return Flow::kNext;
      case StmtKind::kCall: return Done(CallBlock(stmt, scope));
      case StmtKind::kBreak: return Flow::kBreak;
      case StmtKind::kContinue: return Flow::kContinue;
    }
    return Flow::kNext;
  }

  static Result<Flow> Done(const Status& status) {
    if (!status.ok()) return status;
    return Flow::kNext;
  }

  Status Write(std::string_view text) {
    output_->Append(text);
    if (output_->size() <= limits_.output_bytes) return Status::Ok();
    return Status::ResourceExhausted("the text written exceeds " + std::to_string(limits_.output_bytes) + " bytes");
  }

  Status Print(const Stmt& stmt, const Scope& scope) {
    KVERN_ASSIGN_OR_RETURN(const Value value, Eval(*stmt.value, scope));
    return value.is_string() ? Write(value.text()) : Write(TextOf(runtime_, value));
  }

  // What `run` writes.
  template <typename Run>
  Result<std::string> CapturedOf(const Run& run) {
    Output captured(runtime_.budget());
    Output* const outer = std::exchange(output_, &captured);
    const Result<Flow> flow = run();
    output_ = outer;
    if (!flow.ok()) return flow.status();
    return captured.Take();
  }
  Result<std::string> Captured(const Block& block, const ScopePtr& scope) {
    return CapturedOf([&] { return Exec(block, scope); });
  }

  Result<Flow> If(const Stmt& stmt, const ScopePtr& scope) {
    for (const Branch& branch : stmt.branches) {
      KVERN_ASSIGN_OR_RETURN(const Value condition, Eval(*branch.condition, *scope));
      if (condition.IsTrue()) return Exec(branch.body, scope);
    }
    return Exec(stmt.else_body, scope);
  }

  // The elements of `sequence` that pass the loop's condition.
  Result<Value> LoopElements(const Stmt& stmt, const Value& sequence, const ScopePtr& scope) {
    auto all = Elements(runtime_, sequence);
    if (!all.ok() || stmt.condition == nullptr) return all;
    std::vector<Value> passing;
    Scope inner(scope);
    for (const Value& element : all->elements()) {
      KVERN_RETURN_IF_ERROR(Assign(*stmt.target, element, inner));
      KVERN_ASSIGN_OR_RETURN(const Value condition, Eval(*stmt.condition, inner));
      if (condition.IsTrue()) passing.push_back(element);
    }
    return runtime_.List(std::move(passing));
  }

  Result<Flow> For(const Stmt& stmt, const ScopePtr& scope) {
    KVERN_ASSIGN_OR_RETURN(const Value sequence, Eval(*stmt.value, *scope));
    Result<Flow> flow = Loop(stmt, sequence, scope, /*depth=*/1);
    if (!flow.ok()) return At(stmt.value->offset, flow.status());
    return flow;
  }

  Result<Flow> Loop(const Stmt& stmt, const Value& sequence, const ScopePtr& scope, uint32_t depth) {
    KVERN_ASSIGN_OR_RETURN(Value elements, LoopElements(stmt, sequence, scope));
    Budget* const budget = &runtime_.budget();
    LoopObject* const loop = stmt.is_recursive
                                 ? runtime_.Own<RecursiveLoopObject>(budget, std::move(elements), stmt, scope)
                                 : runtime_.Own<LoopObject>(budget, std::move(elements));
    loop->depth = depth;
    const Result<bool> has_finished_one = Rounds(stmt, scope, *loop);
    loop->End();
    if (!has_finished_one.ok()) return has_finished_one.status();
    if (*has_finished_one) return Flow::kNext;
    return Exec(stmt.else_body, std::make_shared<Scope>(scope));
  }

  // Runs the body for each element; whether any round came to its end: as in Jinja, else is for loops where none did.
  Result<bool> Rounds(const Stmt& stmt, const ScopePtr& scope, LoopObject& loop) {
    const auto inner = std::make_shared<Scope>(scope);
    bool has_finished_one = false;
    for (size_t i = 0; i < loop.length; ++i) {
      loop.index = i;
      inner->Clear();
      KVERN_RETURN_IF_ERROR(Assign(*stmt.target, loop.elements.elements()[i], *inner));
      inner->Set(kLoopSymbol, Value::Borrowed(Kind::kLoop, &loop));
      KVERN_ASSIGN_OR_RETURN(const Flow flow, Exec(stmt.body, inner));
      if (flow == Flow::kBreak) break;
      has_finished_one |= flow == Flow::kNext;
    }
    return has_finished_one;
  }

  Status Assign(const Expr& target, const Value& value, Scope& scope) {
    if (target.kind == ExprKind::kName) {
      scope.Set(target.symbol, value);
      return Status::Ok();
    }
    if (target.kind == ExprKind::kAttribute) {
      const Value* space = scope.Find(target.parts[0]->symbol);
      if (space == nullptr || !space->is(Kind::kNamespace)) {
        return At(target.offset, Status::InvalidArgument(Quoted(parsed_.symbols[target.parts[0]->symbol]) +
                                                         " is no namespace, members of nothing else can be set"));
      }
      space->as<NamespaceObject>().members.insert_or_assign(target.name, value);
      return Status::Ok();
    }
    KVERN_ASSIGN_OR_RETURN(const Value elements, Elements(runtime_, value));
    if (elements.elements().size() != target.parts.size()) {
      return At(target.offset,
                Status::InvalidArgument("expected " + std::to_string(target.parts.size()) +
                                        " values to assign, found " + std::to_string(elements.elements().size())));
    }
    for (size_t i = 0; i < target.parts.size(); ++i) {
      KVERN_RETURN_IF_ERROR(Assign(*target.parts[i], elements.elements()[i], scope));
    }
    return Status::Ok();
  }

  Status Set(const Stmt& stmt, Scope& scope) {
    KVERN_ASSIGN_OR_RETURN(const Value value, Eval(*stmt.value, scope));
    return Assign(*stmt.target, value, scope);
  }

  Status SetBlock(const Stmt& stmt, const ScopePtr& scope) {
    KVERN_ASSIGN_OR_RETURN(std::string text, Captured(stmt.body, std::make_shared<Scope>(scope)));
    Value value = runtime_.Text(std::move(text));
    if (stmt.value != nullptr) {
      KVERN_ASSIGN_OR_RETURN(value, EvalFilters(*stmt.value, value, *scope));
    }
    return Assign(*stmt.target, value, *scope);
  }

  Status FilterBlock(const Stmt& stmt, const ScopePtr& scope) {
    KVERN_ASSIGN_OR_RETURN(std::string text, Captured(stmt.body, std::make_shared<Scope>(scope)));
    KVERN_ASSIGN_OR_RETURN(const Value value, EvalFilters(*stmt.value, runtime_.Text(std::move(text)), *scope));
    return Write(TextOf(runtime_, value));
  }

  // Values are computed outside of the new scope.
  Result<Flow> With(const Stmt& stmt, const ScopePtr& scope) {
    const auto inner = std::make_shared<Scope>(scope);
    for (const auto& [target, expr] : stmt.bindings) {
      KVERN_ASSIGN_OR_RETURN(const Value value, Eval(*expr, *scope));
      KVERN_RETURN_IF_ERROR(Assign(*target, value, *inner));
    }
    return Exec(stmt.body, inner);
  }

  Status CallBlock(const Stmt& stmt, const ScopePtr& scope) {
    const Value caller = Value::Borrowed(Kind::kMacro, runtime_.Own<MacroObject>(&runtime_.budget(), stmt, scope));
    KVERN_ASSIGN_OR_RETURN(const Value callee, Eval(*stmt.value->parts[0], *scope));
    KVERN_ASSIGN_OR_RETURN(Arguments arguments, EvalArguments(stmt.value->arguments, *scope));
    arguments.named.emplace_back("caller", caller);
    KVERN_ASSIGN_OR_RETURN(const Value value, Call(callee, arguments));
    return Write(TextOf(runtime_, value));
  }

  Result<Value> CallLoop(const LoopObject& loop, const Arguments& arguments) override {
    const auto* recursive = dynamic_cast<const RecursiveLoopObject*>(&loop);
    if (recursive == nullptr) return Status::InvalidArgument("the loop is called but is not marked 'recursive'");
    if (arguments.positional.size() != 1 || !arguments.named.empty()) {
      return Status::InvalidArgument("the loop is called with what is not one sequence");
    }
    const Level level(*this);
    KVERN_RETURN_IF_ERROR(CheckLimits());
    KVERN_ASSIGN_OR_RETURN(std::string text, CapturedOf([&] {
                             return Loop(recursive->stmt, arguments.positional[0], recursive->scope, loop.depth + 1);
                           }));
    return runtime_.Text(std::move(text));
  }

  Result<Value> CallMacro(const MacroObject& macro, const Arguments& arguments) override {
    const Level level(*this);
    KVERN_RETURN_IF_ERROR(CheckLimits());
    const auto scope = std::make_shared<Scope>(macro.scope);
    KVERN_RETURN_IF_ERROR(BindParameters(macro.stmt, arguments, *scope));
    KVERN_ASSIGN_OR_RETURN(std::string text, Captured(macro.stmt.body, scope));
    return runtime_.Text(std::move(text));
  }

  // All that is given is set before the first default is computed, which may name any parameter.
  Status BindParameters(const Stmt& macro, const Arguments& arguments, Scope& scope) {
    const std::string name = macro.text.empty() ? "the caller" : "the macro " + Quoted(macro.text);
    const std::vector<Value>& positional = arguments.positional;
    std::map<std::string_view, Value> named;
    for (const auto& [key, value] : arguments.named) {
      if (!named.emplace(key, value).second) return GivenTwice(name, key);
    }
    std::vector<const Parameter*> left_out;
    for (size_t i = 0; i < macro.parameters.size(); ++i) {
      const Parameter& parameter = macro.parameters[i];
      if (i < positional.size()) {
        scope.Set(parameter.symbol, positional[i]);
      } else if (auto given = named.extract(parameter.name)) {
        scope.Set(parameter.symbol, std::move(given.mapped()));
      } else {
        scope.Set(parameter.symbol, runtime_.Undefined("the parameter " + Quoted(parameter.name) + " was not given"));
        if (parameter.default_value != nullptr) left_out.push_back(&parameter);
      }
    }
    if (macro.takes_caller) {
      auto given = named.extract("caller");
      const bool is_given = given && !given.mapped().is_none();
      scope.Set(kCallerSymbol, is_given ? std::move(given.mapped()) : runtime_.Undefined("there is no caller"));
    }
    if (macro.takes_kwargs) {
      std::vector<std::pair<Value, Value>> rest;
      for (const auto& [key, value] : arguments.named) {
        if (named.contains(key)) rest.emplace_back(runtime_.Text(key), value);
      }
      scope.Set(kKwargsSymbol, runtime_.Dict(std::move(rest)));
    } else if (!named.empty()) {
      const std::string key(named.begin()->first);
      if (key == "caller") return Status::InvalidArgument(name + " is called with a body, but does not call caller()");
      const bool is_known = std::any_of(macro.parameters.begin(), macro.parameters.end(),
                                        [&](const Parameter& parameter) { return parameter.name == key; });
      if (is_known) return GivenTwice(name, key);
      return Status::InvalidArgument(name + " is given an argument " + Quoted(key) + " that it does not know");
    }
    const size_t num_bound = std::min(positional.size(), macro.parameters.size());
    if (macro.takes_varargs) {
      scope.Set(kVarargsSymbol,
                runtime_.Tuple({positional.begin() + static_cast<std::ptrdiff_t>(num_bound), positional.end()}));
    } else if (num_bound < positional.size()) {
      return Status::InvalidArgument(name + " takes at most " + std::to_string(macro.parameters.size()) +
                                     " arguments, found " + std::to_string(positional.size()));
    }
    for (const Parameter* parameter : left_out) {
      KVERN_ASSIGN_OR_RETURN(Value value, Eval(*parameter->default_value, scope));
      scope.Set(parameter->symbol, std::move(value));
    }
    return Status::Ok();
  }

  static Status GivenTwice(const std::string& macro, std::string_view argument) {
    return Status::InvalidArgument(macro + " is given " + Quoted(argument) + " twice");
  }

  const ChatLimits& limits_;
  Output* output_ = nullptr;
};

}  // namespace

Result<std::string> RenderTemplate(const Template& parsed, const std::vector<Variable>& variables, const std::tm& now,
                                   const ChatLimits& limits) {
  Budget budget(limits.steps, limits.held_bytes);
  Runtime runtime(budget, now);
  return Interpreter(parsed, runtime, limits).Run(variables);
}

}  // namespace kvern::jinja
