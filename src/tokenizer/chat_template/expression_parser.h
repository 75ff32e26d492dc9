// Parses the expressions of a template out of its tokens.
#pragma once

#include <initializer_list>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "kvern/status.h"
#include "tokenizer/chat_template/ast.h"
#include "tokenizer/chat_template/token_cursor.h"

namespace kvern::jinja {

constexpr uint32_t kMaxParseNesting = 100;  // Brackets and blocks inside each other.
constexpr uint32_t kMaxTreeDepth = 300;     // a + b + c + ... is a tree of that depth too.

// What may follow a tuple without brackets, or stand in it.
struct TupleStyle {
  bool allows_conditional = true;  // a if b else c
  bool in_brackets = false;        // "()" is a tuple.
  bool is_target = false;          // Names only.
  bool allows_members = false;     // A target may be name.member.
  std::string_view end_name = "";  // "in": ends the tuple.
};

class ExpressionParser {
 public:
  explicit ExpressionParser(TokenCursor cursor) : cursor_(std::move(cursor)) {}

  Result<ExprPtr> Expression(bool allows_conditional = true);
  // One expression, or several between commas.
  Result<ExprPtr> Tuple(const TupleStyle& style);
  // What may stand left of "=". Checked to be names, tuples of them, or (where allowed) a member of a name.
  Result<ExprPtr> Target(const TupleStyle& style);
  // "| name(arguments) | ...", perhaps none, after `input` (null: the text of a block).
  Result<ExprPtr> Filters(ExprPtr input);
  // "name(arguments) | ...", at least one.
  Result<ExprPtr> BlockFilters();
  Result<ExprPtr> Call(ExprPtr callee);

  TokenCursor& cursor() { return cursor_; }
  Symbol SymbolOf(std::string_view name);
  const std::vector<std::string>& symbols() const { return symbols_; }
  // The symbols below 32 that were read since the last call, as bits. `before`: bits to begin the next count with.
  uint32_t TakeSymbolsRead(uint32_t before = 0) { return std::exchange(symbols_read_, before); }
  // Counts one level of nesting for as long as it lives.
  class Nesting {
   public:
    explicit Nesting(ExpressionParser& parser) : parser_(parser) { ++parser_.nesting_; }
    ~Nesting() { --parser_.nesting_; }

   private:
    ExpressionParser& parser_;
  };
  Status CheckNesting() const;

 private:
  using Level = Result<ExprPtr> (ExpressionParser::*)();

  ExprPtr Make(ExprKind kind, uint32_t offset) const;
  Result<ExprPtr> Finish(ExprPtr expr) const;
  Result<ExprPtr> Binary(Level operand, std::initializer_list<std::pair<std::string_view, Operator>> operators);
  Result<ExprPtr> Conditional();
  Result<ExprPtr> Or();
  Result<ExprPtr> And();
  Result<ExprPtr> Not();
  Result<ExprPtr> Compare();
  Result<ExprPtr> Sum();
  Result<ExprPtr> Concat();
  Result<ExprPtr> Product();
  Result<ExprPtr> Power();
  Result<ExprPtr> Unary() { return Signed(/*takes_filters=*/true); }
  Result<ExprPtr> Signed(bool takes_filters);
  Result<ExprPtr> Primary(bool allows_members);
  Result<ExprPtr> NameOrConstant(bool allows_members);
  Result<ExprPtr> StringLiteral();
  Result<ExprPtr> NumberLiteral();
  Result<ExprPtr> ListLiteral();
  Result<ExprPtr> DictLiteral();
  Result<ExprPtr> Postfix(ExprPtr expr);
  Result<ExprPtr> Subscript(ExprPtr object);
  Result<ExprPtr> Slice(ExprPtr object, ExprPtr begin, uint32_t offset);
  Result<ExprPtr> FiltersAndTests(ExprPtr expr);
  Result<ExprPtr> NamedFilter(ExprPtr input);
  Result<ExprPtr> Test(ExprPtr value);
  Status Arguments(std::vector<ArgumentExpr>& arguments);
  Status OneArgument(std::vector<ArgumentExpr>& arguments);
  Status CheckTarget(const Expr& target) const;

  TokenCursor cursor_;
  uint32_t nesting_ = 0;
  uint32_t symbols_read_ = 0;
  std::vector<std::string> symbols_;
  std::map<std::string, Symbol, std::less<>> symbol_of_;
};

}  // namespace kvern::jinja
