#include "tokenizer/chat_template/expression_parser.h"

#include <algorithm>
#include <optional>

namespace kvern::jinja {

Symbol ExpressionParser::SymbolOf(std::string_view name) {
  if (const auto it = symbol_of_.find(name); it != symbol_of_.end()) return it->second;
  const auto symbol = static_cast<Symbol>(symbols_.size());
  symbols_.emplace_back(name);
  symbol_of_.emplace(name, symbol);
  return symbol;
}

Status ExpressionParser::CheckNesting() const {
  if (nesting_ <= kMaxParseNesting) return Status::Ok();
  return cursor_.ErrorAt(cursor_.current().offset, StatusCode::kResourceExhausted,
                         "brackets and blocks nest deeper than " + std::to_string(kMaxParseNesting));
}

ExprPtr ExpressionParser::Make(ExprKind kind, uint32_t offset) const {
  auto expr = std::make_unique<Expr>();
  expr->kind = kind;
  expr->offset = offset;
  return expr;
}

Result<ExprPtr> ExpressionParser::Finish(ExprPtr expr) const {
  for (const ExprPtr& part : expr->parts) {
    if (part != nullptr) expr->depth = std::max(expr->depth, part->depth + 1);
  }
  for (const ArgumentExpr& argument : expr->arguments) expr->depth = std::max(expr->depth, argument.value->depth + 1);
  if (expr->depth > kMaxTreeDepth) {
    return cursor_.ErrorAt(expr->offset, StatusCode::kResourceExhausted,
                           "this expression has more than " + std::to_string(kMaxTreeDepth) + " levels");
  }
  return expr;
}

Result<ExprPtr> ExpressionParser::Expression(bool allows_conditional) {
  const Nesting nesting(*this);
  KVERN_RETURN_IF_ERROR(CheckNesting());
  return allows_conditional ? Conditional() : Or();
}

Result<ExprPtr> ExpressionParser::Conditional() {
  KVERN_ASSIGN_OR_RETURN(ExprPtr expr, Or());
  while (cursor_.IsName("if")) {
    ExprPtr choice = Make(ExprKind::kConditional, cursor_.Take().offset);
    KVERN_ASSIGN_OR_RETURN(ExprPtr condition, Or());
    ExprPtr otherwise;
    if (cursor_.TakeName("else")) {
      KVERN_ASSIGN_OR_RETURN(otherwise, Expression());
    }
    choice->parts.push_back(std::move(condition));
    choice->parts.push_back(std::move(expr));
    choice->parts.push_back(std::move(otherwise));
    KVERN_ASSIGN_OR_RETURN(expr, Finish(std::move(choice)));
  }
  return expr;
}

Result<ExprPtr> ExpressionParser::Or() {
  KVERN_ASSIGN_OR_RETURN(ExprPtr left, And());
  while (cursor_.IsName("or")) {
    ExprPtr expr = Make(ExprKind::kOr, cursor_.Take().offset);
    KVERN_ASSIGN_OR_RETURN(ExprPtr right, And());
    expr->parts.push_back(std::move(left));
    expr->parts.push_back(std::move(right));
    KVERN_ASSIGN_OR_RETURN(left, Finish(std::move(expr)));
  }
  return left;
}

Result<ExprPtr> ExpressionParser::And() {
  KVERN_ASSIGN_OR_RETURN(ExprPtr left, Not());
  while (cursor_.IsName("and")) {
    ExprPtr expr = Make(ExprKind::kAnd, cursor_.Take().offset);
    KVERN_ASSIGN_OR_RETURN(ExprPtr right, Not());
    expr->parts.push_back(std::move(left));
    expr->parts.push_back(std::move(right));
    KVERN_ASSIGN_OR_RETURN(left, Finish(std::move(expr)));
  }
  return left;
}

Result<ExprPtr> ExpressionParser::Not() {
  if (!cursor_.IsName("not")) return Compare();
  const Nesting nesting(*this);
  KVERN_RETURN_IF_ERROR(CheckNesting());
  ExprPtr expr = Make(ExprKind::kNot, cursor_.Take().offset);
  KVERN_ASSIGN_OR_RETURN(ExprPtr operand, Not());
  expr->parts.push_back(std::move(operand));
  return Finish(std::move(expr));
}

Result<ExprPtr> ExpressionParser::Compare() {
  constexpr std::pair<std::string_view, Operator> kOperators[] = {
      {"==", Operator::kEqual},     {"!=", Operator::kNotEqual}, {"<", Operator::kLess},
      {"<=", Operator::kLessEqual}, {">", Operator::kGreater},   {">=", Operator::kGreaterEqual},
  };
  ExprPtr expr = Make(ExprKind::kCompare, 0);
  KVERN_ASSIGN_OR_RETURN(ExprPtr operand, Sum());
  for (;;) {
    const Token& token = cursor_.current();
    std::optional<Operator> op;
    for (const auto& [text, candidate] : kOperators) {
      if (cursor_.TakeOperator(text)) op = candidate;
    }
    if (!op && cursor_.TakeName("in")) op = Operator::kIn;
    if (!op && cursor_.IsName("not") && cursor_.next().kind == TokenKind::kName && cursor_.next().text == "in") {
      cursor_.Take();
      cursor_.Take();
      op = Operator::kNotIn;
    }
    if (!op) break;
    expr->offset = expr->operators.empty() ? token.offset : expr->offset;
    expr->operators.push_back(*op);
    expr->parts.push_back(std::move(operand));
    KVERN_ASSIGN_OR_RETURN(operand, Sum());
  }
  if (expr->operators.empty()) return operand;
  expr->parts.push_back(std::move(operand));
  return Finish(std::move(expr));
}

Result<ExprPtr> ExpressionParser::Binary(Level operand,
                                         std::initializer_list<std::pair<std::string_view, Operator>> operators) {
  KVERN_ASSIGN_OR_RETURN(ExprPtr left, (this->*operand)());
  for (;;) {
    const auto found = std::find_if(operators.begin(), operators.end(),
                                    [this](const auto& op) { return cursor_.IsOperator(op.first); });
    if (found == operators.end()) return left;
    ExprPtr expr = Make(ExprKind::kBinary, cursor_.Take().offset);
    expr->operators.push_back(found->second);
    KVERN_ASSIGN_OR_RETURN(ExprPtr right, (this->*operand)());
    expr->parts.push_back(std::move(left));
    expr->parts.push_back(std::move(right));
    KVERN_ASSIGN_OR_RETURN(left, Finish(std::move(expr)));
  }
}

Result<ExprPtr> ExpressionParser::Sum() {
  return Binary(&ExpressionParser::Concat, {{"+", Operator::kAdd}, {"-", Operator::kSubtract}});
}

Result<ExprPtr> ExpressionParser::Concat() {
  KVERN_ASSIGN_OR_RETURN(ExprPtr first, Product());
  if (!cursor_.IsOperator("~")) return first;
  ExprPtr expr = Make(ExprKind::kConcat, cursor_.current().offset);
  expr->parts.push_back(std::move(first));
  while (cursor_.TakeOperator("~")) {
    KVERN_ASSIGN_OR_RETURN(ExprPtr next, Product());
    expr->parts.push_back(std::move(next));
  }
  return Finish(std::move(expr));
}

Result<ExprPtr> ExpressionParser::Product() {
  return Binary(
      &ExpressionParser::Power,
      {{"*", Operator::kMultiply}, {"/", Operator::kDivide}, {"//", Operator::kFloorDivide}, {"%", Operator::kModulo}});
}

// Unlike Python's, Jinja's ** groups from the left.
Result<ExprPtr> ExpressionParser::Power() { return Binary(&ExpressionParser::Unary, {{"**", Operator::kPower}}); }

Result<ExprPtr> ExpressionParser::Signed(bool takes_filters) {
  ExprPtr expr;
  if (cursor_.IsOperator("-") || cursor_.IsOperator("+")) {
    const Nesting nesting(*this);
    KVERN_RETURN_IF_ERROR(CheckNesting());
    const Token& sign = cursor_.Take();
    expr = Make(ExprKind::kUnary, sign.offset);
    expr->operators.push_back(sign.text == "-" ? Operator::kNegate : Operator::kPlus);
    KVERN_ASSIGN_OR_RETURN(ExprPtr operand, Signed(/*takes_filters=*/false));
    expr->parts.push_back(std::move(operand));
    KVERN_ASSIGN_OR_RETURN(expr, Finish(std::move(expr)));
  } else {
    KVERN_ASSIGN_OR_RETURN(expr, Primary(/*allows_members=*/false));
  }
  KVERN_ASSIGN_OR_RETURN(expr, Postfix(std::move(expr)));
  return takes_filters ? FiltersAndTests(std::move(expr)) : std::move(expr);
}

Result<ExprPtr> ExpressionParser::Tuple(const TupleStyle& style) {
  ExprPtr tuple = Make(ExprKind::kTuple, cursor_.current().offset);
  bool has_comma = false;
  const auto ends = [&] {
    return cursor_.Is(TokenKind::kVariableEnd) || cursor_.Is(TokenKind::kBlockEnd) || cursor_.IsOperator(")") ||
           (!style.end_name.empty() && cursor_.IsName(style.end_name));
  };
  while (!ends()) {
    ExprPtr element;
    if (style.is_target) {
      const uint32_t symbols_read = symbols_read_;
      KVERN_ASSIGN_OR_RETURN(element, Primary(style.allows_members));
      symbols_read_ = symbols_read;
    } else {
      KVERN_ASSIGN_OR_RETURN(element, Expression(style.allows_conditional));
    }
    tuple->parts.push_back(std::move(element));
    if (!cursor_.TakeOperator(",")) break;
    has_comma = true;
  }
  if (!has_comma && tuple->parts.size() == 1) return std::move(tuple->parts[0]);
  if (!has_comma && !style.in_brackets) return cursor_.Unexpected("an expression");
  return Finish(std::move(tuple));
}

Result<ExprPtr> ExpressionParser::Target(const TupleStyle& style) {
  KVERN_ASSIGN_OR_RETURN(ExprPtr target, Tuple(style));
  KVERN_RETURN_IF_ERROR(CheckTarget(*target));
  return target;
}

Status ExpressionParser::CheckTarget(const Expr& target) const {
  if (target.kind == ExprKind::kTuple) {
    for (const ExprPtr& part : target.parts) KVERN_RETURN_IF_ERROR(CheckTarget(*part));
    return Status::Ok();
  }
  if (target.kind == ExprKind::kName || target.kind == ExprKind::kAttribute) return Status::Ok();
  return cursor_.ErrorAt(target.offset, StatusCode::kCorruption, "expected a name to assign to");
}

}  // namespace kvern::jinja
