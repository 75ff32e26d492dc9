// ExpressionParser, what operators work on: literals and names, what follows them (members, calls, filters, tests), and
// the arguments of these. The operators themselves are in expression_parser.cc.
#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <optional>

#include "tokenizer/chat_template/builtins.h"
#include "tokenizer/chat_template/expression_parser.h"
#include "tokenizer/chat_template/string_literal.h"
#include "tokenizer/quoted.h"

namespace kvern::jinja {
namespace {

constexpr bool IsTrueName(std::string_view name) { return name == "true" || name == "True"; }
constexpr bool IsFalseName(std::string_view name) { return name == "false" || name == "False"; }
constexpr bool IsNoneName(std::string_view name) { return name == "none" || name == "None"; }

std::string WithoutUnderscores(std::string_view text) {
  std::string digits(text);
  digits.erase(std::remove(digits.begin(), digits.end(), '_'), digits.end());
  return digits;
}

std::optional<int64_t> IntegerOf(std::string_view text) {
  std::string digits = WithoutUnderscores(text);
  int base = 10;
  if (digits.size() > 2 && digits[0] == '0' && digits[1] > '9') {
    const char letter = static_cast<char>(digits[1] | 0x20);
    base = letter == 'x' ? 16 : letter == 'o' ? 8 : 2;
    digits.erase(0, 2);
  } else if (digits.size() > 1 && digits[0] == '0' && digits.find_first_not_of('0') != digits.npos) {
    return std::nullopt;  // 007 is no number of Python's.
  }
  int64_t value = 0;
  const char* const end = digits.data() + digits.size();
  const auto [stop, error] = std::from_chars(digits.data(), end, value, base);
  if (error != std::errc() || stop != end) return std::nullopt;
  return value;
}

}  // namespace

Result<ExprPtr> ExpressionParser::Primary(bool allows_members) {
  switch (cursor_.current().kind) {
    case TokenKind::kName: return NameOrConstant(allows_members);
    case TokenKind::kString: return StringLiteral();
    case TokenKind::kInteger:
    case TokenKind::kFloat: return NumberLiteral();
    default: break;
  }
  if (cursor_.TakeOperator("(")) {
    KVERN_ASSIGN_OR_RETURN(ExprPtr inner, Tuple({.in_brackets = true}));
    KVERN_RETURN_IF_ERROR(cursor_.ExpectOperator(")"));
    return inner;
  }
  if (cursor_.IsOperator("[")) return ListLiteral();
  if (cursor_.IsOperator("{")) return DictLiteral();
  return cursor_.Unexpected("an expression");
}

Result<ExprPtr> ExpressionParser::NameOrConstant(bool allows_members) {
  const Token& token = cursor_.Take();
  const bool is_true = IsTrueName(token.text);
  if (is_true || IsFalseName(token.text) || IsNoneName(token.text)) {
    ExprPtr expr = Make(ExprKind::kConstant, token.offset);
    expr->constant = IsNoneName(token.text) ? Value::None() : Value::Bool(is_true);
    return expr;
  }
  ExprPtr name = Make(ExprKind::kName, token.offset);
  name->symbol = SymbolOf(token.text);
  if (name->symbol < 32) symbols_read_ |= 1u << name->symbol;
  if (!allows_members || !cursor_.TakeOperator(".")) return name;
  if (!cursor_.Is(TokenKind::kName)) return cursor_.Unexpected("the name of a member");
  ExprPtr member = Make(ExprKind::kAttribute, token.offset);
  member->name = cursor_.Take().text;
  member->parts.push_back(std::move(name));
  return Finish(std::move(member));
}

Result<ExprPtr> ExpressionParser::StringLiteral() {
  ExprPtr expr = Make(ExprKind::kConstant, cursor_.current().offset);
  std::string text;
  while (cursor_.Is(TokenKind::kString)) {  // Strings that stand side by side are one.
    const Token& token = cursor_.Take();
    const auto part = Unescaped(token.text);
    if (!part.ok()) return cursor_.ErrorAt(token.offset, part.status().code(), part.status().message());
    text += *part;
  }
  expr->constant = Value::String(nullptr, std::move(text));
  return expr;
}

Result<ExprPtr> ExpressionParser::NumberLiteral() {
  const Token& token = cursor_.Take();
  ExprPtr expr = Make(ExprKind::kConstant, token.offset);
  if (token.kind == TokenKind::kFloat) {
    const std::string digits = WithoutUnderscores(token.text);
    double value = 0;
    if (std::from_chars(digits.data(), digits.data() + digits.size(), value).ec == std::errc::result_out_of_range) {
      value = std::strtod(digits.c_str(), nullptr);  // Infinity, or 0.
    }
    expr->constant = Value::Float(value);
    return expr;
  }
  const auto value = IntegerOf(token.text);
  if (!value) {
    return cursor_.ErrorAt(token.offset, StatusCode::kCorruption,
                           Quoted(token.text) + " is no integer, or none of 64 bits");
  }
  expr->constant = Value::Int(*value);
  return expr;
}

Result<ExprPtr> ExpressionParser::ListLiteral() {
  ExprPtr list = Make(ExprKind::kList, cursor_.Take().offset);
  while (!cursor_.IsOperator("]")) {
    if (!list->parts.empty()) KVERN_RETURN_IF_ERROR(cursor_.ExpectOperator(","));
    if (cursor_.IsOperator("]")) break;
    KVERN_ASSIGN_OR_RETURN(ExprPtr element, Expression());
    list->parts.push_back(std::move(element));
  }
  cursor_.Take();
  return Finish(std::move(list));
}

Result<ExprPtr> ExpressionParser::DictLiteral() {
  ExprPtr dict = Make(ExprKind::kDict, cursor_.Take().offset);
  while (!cursor_.IsOperator("}")) {
    if (!dict->parts.empty()) KVERN_RETURN_IF_ERROR(cursor_.ExpectOperator(","));
    if (cursor_.IsOperator("}")) break;
    KVERN_ASSIGN_OR_RETURN(ExprPtr key, Expression());
    KVERN_RETURN_IF_ERROR(cursor_.ExpectOperator(":"));
    KVERN_ASSIGN_OR_RETURN(ExprPtr value, Expression());
    dict->parts.push_back(std::move(key));
    dict->parts.push_back(std::move(value));
  }
  cursor_.Take();
  return Finish(std::move(dict));
}

Result<ExprPtr> ExpressionParser::Postfix(ExprPtr expr) {
  for (;;) {
    if (cursor_.IsOperator(".") || cursor_.IsOperator("[")) {
      KVERN_ASSIGN_OR_RETURN(expr, Subscript(std::move(expr)));
    } else if (cursor_.IsOperator("(")) {
      KVERN_ASSIGN_OR_RETURN(expr, Call(std::move(expr)));
    } else {
      return expr;
    }
  }
}

Result<ExprPtr> ExpressionParser::Subscript(ExprPtr object) {
  const uint32_t offset = cursor_.current().offset;
  if (cursor_.TakeOperator(".")) {
    ExprPtr expr = Make(ExprKind::kAttribute, offset);
    if (cursor_.Is(TokenKind::kName)) {
      expr->name = cursor_.Take().text;
      expr->parts.push_back(std::move(object));
      return Finish(std::move(expr));
    }
    if (!cursor_.Is(TokenKind::kInteger)) return cursor_.Unexpected("a name or number");
    expr->kind = ExprKind::kItem;
    KVERN_ASSIGN_OR_RETURN(ExprPtr index, NumberLiteral());
    expr->parts.push_back(std::move(object));
    expr->parts.push_back(std::move(index));
    return Finish(std::move(expr));
  }
  cursor_.Take();
  ExprPtr index;
  if (!cursor_.IsOperator(":")) {
    KVERN_ASSIGN_OR_RETURN(index, Expression());
  }
  if (cursor_.IsOperator(":")) return Slice(std::move(object), std::move(index), offset);
  if (cursor_.IsOperator(",")) {
    ExprPtr tuple = Make(ExprKind::kTuple, offset);
    tuple->parts.push_back(std::move(index));
    while (cursor_.TakeOperator(",")) {
      KVERN_ASSIGN_OR_RETURN(ExprPtr next, Expression());
      tuple->parts.push_back(std::move(next));
    }
    KVERN_ASSIGN_OR_RETURN(index, Finish(std::move(tuple)));
  }
  KVERN_RETURN_IF_ERROR(cursor_.ExpectOperator("]"));
  ExprPtr expr = Make(ExprKind::kItem, offset);
  expr->parts.push_back(std::move(object));
  expr->parts.push_back(std::move(index));
  return Finish(std::move(expr));
}

Result<ExprPtr> ExpressionParser::Slice(ExprPtr object, ExprPtr begin, uint32_t offset) {
  ExprPtr expr = Make(ExprKind::kSlice, offset);
  expr->parts.push_back(std::move(object));
  expr->parts.push_back(std::move(begin));
  for (int i = 0; i < 2; ++i) {  // The end, the step.
    ExprPtr bound;
    if (cursor_.TakeOperator(":") && !cursor_.IsOperator(":") && !cursor_.IsOperator("]")) {
      KVERN_ASSIGN_OR_RETURN(bound, Expression());
    }
    expr->parts.push_back(std::move(bound));
  }
  KVERN_RETURN_IF_ERROR(cursor_.ExpectOperator("]"));
  return Finish(std::move(expr));
}

Result<ExprPtr> ExpressionParser::FiltersAndTests(ExprPtr expr) {
  for (;;) {
    if (cursor_.TakeOperator("|")) {
      KVERN_ASSIGN_OR_RETURN(expr, NamedFilter(std::move(expr)));
    } else if (cursor_.IsName("is")) {
      KVERN_ASSIGN_OR_RETURN(expr, Test(std::move(expr)));
    } else if (cursor_.IsOperator("(")) {
      KVERN_ASSIGN_OR_RETURN(expr, Call(std::move(expr)));
    } else {
      return expr;
    }
  }
}

Result<ExprPtr> ExpressionParser::Filters(ExprPtr input) {
  while (cursor_.TakeOperator("|")) {
    KVERN_ASSIGN_OR_RETURN(input, NamedFilter(std::move(input)));
  }
  return input;
}

Result<ExprPtr> ExpressionParser::BlockFilters() {
  KVERN_ASSIGN_OR_RETURN(ExprPtr first, NamedFilter(nullptr));
  return Filters(std::move(first));
}

Result<ExprPtr> ExpressionParser::NamedFilter(ExprPtr input) {
  if (!cursor_.Is(TokenKind::kName)) return cursor_.Unexpected("the name of a filter");
  ExprPtr expr = Make(ExprKind::kFilter, cursor_.current().offset);
  expr->name = cursor_.Take().text;
  expr->builtin = FindFilter(expr->name);
  expr->parts.push_back(std::move(input));
  if (cursor_.IsOperator("(")) KVERN_RETURN_IF_ERROR(Arguments(expr->arguments));
  return Finish(std::move(expr));
}

Result<ExprPtr> ExpressionParser::Test(ExprPtr value) {
  cursor_.Take();
  const uint32_t offset = cursor_.current().offset;
  const bool is_negated = cursor_.TakeName("not");
  if (!cursor_.Is(TokenKind::kName)) return cursor_.Unexpected("the name of a test");
  ExprPtr expr = Make(ExprKind::kTest, cursor_.current().offset);
  expr->name = cursor_.Take().text;
  expr->builtin = FindTest(expr->name);
  expr->parts.push_back(std::move(value));
  const bool may_begin_argument = cursor_.Is(TokenKind::kName) || cursor_.Is(TokenKind::kString) ||
                                  cursor_.Is(TokenKind::kInteger) || cursor_.Is(TokenKind::kFloat) ||
                                  cursor_.IsOperator("[") || cursor_.IsOperator("{");
  if (cursor_.IsOperator("(")) {
    KVERN_RETURN_IF_ERROR(Arguments(expr->arguments));
  } else if (cursor_.IsName("is")) {
    return cursor_.Unexpected("no second test");
  } else if (may_begin_argument && !cursor_.IsName("else") && !cursor_.IsName("or") && !cursor_.IsName("and")) {
    KVERN_ASSIGN_OR_RETURN(ExprPtr argument, Primary(/*allows_members=*/false));
    KVERN_ASSIGN_OR_RETURN(argument, Postfix(std::move(argument)));
    expr->arguments.push_back({ArgumentExpr::Kind::kPositional, "", std::move(argument)});
  }
  KVERN_ASSIGN_OR_RETURN(expr, Finish(std::move(expr)));
  if (!is_negated) return expr;
  ExprPtr negation = Make(ExprKind::kNot, offset);
  negation->parts.push_back(std::move(expr));
  return Finish(std::move(negation));
}

Result<ExprPtr> ExpressionParser::Call(ExprPtr callee) {
  ExprPtr expr = Make(ExprKind::kCall, cursor_.current().offset);
  expr->parts.push_back(std::move(callee));
  KVERN_RETURN_IF_ERROR(Arguments(expr->arguments));
  return Finish(std::move(expr));
}

Status ExpressionParser::Arguments(std::vector<ArgumentExpr>& arguments) {
  cursor_.Take();
  bool is_first = true;
  while (!cursor_.IsOperator(")")) {
    if (!is_first) KVERN_RETURN_IF_ERROR(cursor_.ExpectOperator(","));
    is_first = false;
    if (cursor_.IsOperator(")")) break;
    KVERN_RETURN_IF_ERROR(OneArgument(arguments));
  }
  cursor_.Take();
  return Status::Ok();
}

Status ExpressionParser::OneArgument(std::vector<ArgumentExpr>& arguments) {
  using ArgumentKind = ArgumentExpr::Kind;
  ArgumentExpr argument{ArgumentKind::kPositional, "", nullptr};
  if (cursor_.TakeOperator("*")) {
    argument.kind = ArgumentKind::kSpread;
  } else if (cursor_.TakeOperator("**")) {
    argument.kind = ArgumentKind::kSpreadNamed;
  } else if (cursor_.Is(TokenKind::kName) && cursor_.next().kind == TokenKind::kOperator &&
             cursor_.next().text == "=") {
    argument.kind = ArgumentKind::kNamed;
    argument.name = cursor_.Take().text;
    cursor_.Take();
  }
  // As in Python, what has a name comes after what has none, and nothing comes after **.
  const ArgumentKind last = arguments.empty() ? ArgumentKind::kPositional : arguments.back().kind;
  if (last == ArgumentKind::kSpreadNamed || (argument.kind == ArgumentKind::kPositional && last != argument.kind)) {
    return cursor_.Unexpected("no further argument of this kind");
  }
  KVERN_ASSIGN_OR_RETURN(argument.value, Expression());
  arguments.push_back(std::move(argument));
  return Status::Ok();
}

}  // namespace kvern::jinja
