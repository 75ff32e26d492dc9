#include "tokenizer/chat_template/parser.h"

#include <algorithm>
#include <array>
#include <initializer_list>
#include <set>

#include "tokenizer/chat_template/expression_parser.h"
#include "tokenizer/quoted.h"

namespace kvern::jinja {
namespace {

// Statements of Jinja that would read other templates or need more than a chat template should.
constexpr std::array<std::string_view, 8> kUnsupportedTags = {"extends", "include", "import", "from",
                                                              "block",   "do",      "print",  "autoescape"};

class Parser {
 public:
  explicit Parser(TokenCursor cursor) : expressions_(std::move(cursor)), cursor_(expressions_.cursor()) {
    expressions_.SymbolOf("loop");     // kLoopSymbol
    expressions_.SymbolOf("caller");   // kCallerSymbol
    expressions_.SymbolOf("varargs");  // kVarargsSymbol
    expressions_.SymbolOf("kwargs");   // kKwargsSymbol
  }

  Status Run(Template& result) {
    KVERN_RETURN_IF_ERROR(Statements({}, result.body));
    result.symbols = expressions_.symbols();
    return Status::Ok();
  }

 private:
  using StmtPtr = std::unique_ptr<Stmt>;

  static StmtPtr Make(StmtKind kind, uint32_t offset) {
    auto stmt = std::make_unique<Stmt>();
    stmt->kind = kind;
    stmt->offset = offset;
    return stmt;
  }

  // Statements until a tag with one of the names `ends`, whose name is then the current token; without `ends`, until
  // the end of the template.
  Status Statements(std::initializer_list<std::string_view> ends, Block& block) {
    const ExpressionParser::Nesting nesting(expressions_);
    KVERN_RETURN_IF_ERROR(expressions_.CheckNesting());
    for (;;) {
      const Token& token = cursor_.current();
      if (token.kind == TokenKind::kEnd) {
        if (ends.size() == 0) return Status::Ok();
        return cursor_.Unexpected(Quoted("{% " + std::string(*(ends.end() - 1)) + " %}"));
      }
      cursor_.Take();
      if (token.kind == TokenKind::kData) {
        block.push_back(Make(StmtKind::kText, token.offset));
        block.back()->text = token.text;
      } else if (token.kind == TokenKind::kVariableBegin) {
        block.push_back(Make(StmtKind::kPrint, token.offset));
        KVERN_ASSIGN_OR_RETURN(block.back()->value, expressions_.Tuple({}));
        KVERN_RETURN_IF_ERROR(cursor_.Expect(TokenKind::kVariableEnd, "an operator or '}}'"));
      } else {
        if (std::any_of(ends.begin(), ends.end(), [this](auto name) { return cursor_.IsName(name); })) {
          return Status::Ok();
        }
        KVERN_ASSIGN_OR_RETURN(StmtPtr stmt, Statement());
        block.push_back(std::move(stmt));
        KVERN_RETURN_IF_ERROR(BlockEnd());
      }
    }
  }

  // The end of a tag after which a body comes; like Python it may have a colon.
  Status BodyBegin() {
    cursor_.TakeOperator(":");
    return BlockEnd();
  }
  Status BlockEnd() { return cursor_.Expect(TokenKind::kBlockEnd, "an operator or '%}'"); }

  // The rest of the opening tag, the body, and the name of the closing tag.
  Status Body(std::string_view end, Block& body) {
    KVERN_RETURN_IF_ERROR(BodyBegin());
    KVERN_RETURN_IF_ERROR(Statements({end}, body));
    cursor_.Take();
    return Status::Ok();
  }

  Result<StmtPtr> Statement() {
    if (!cursor_.Is(TokenKind::kName)) return cursor_.Unexpected("the name of a statement");
    const Token& name = cursor_.Take();
    if (name.text == "if") return If(name.offset);
    if (name.text == "for") return For(name.offset);
    if (name.text == "set") return Set(name.offset);
    if (name.text == "macro") return Macro(name.offset);
    if (name.text == "call") return Call(name.offset);
    if (name.text == "filter") return Filter(name.offset);
    if (name.text == "with") return With(name.offset);
    if (name.text == "generation") return Generation(name.offset);
    if (name.text == "break" || name.text == "continue") {
      if (num_loops_ == 0) {
        return cursor_.ErrorAt(name.offset, StatusCode::kCorruption, Quoted(name.text) + " stands in no loop");
      }
      return Make(name.text == "break" ? StmtKind::kBreak : StmtKind::kContinue, name.offset);
    }
    if (std::find(kUnsupportedTags.begin(), kUnsupportedTags.end(), name.text) != kUnsupportedTags.end()) {
      return cursor_.ErrorAt(name.offset, StatusCode::kUnsupported,
                             "the statement " + Quoted(name.text) + " is not supported");
    }
    return cursor_.ErrorAt(name.offset, StatusCode::kCorruption,
                           "there is no statement " + Quoted(name.text) + ", expected if, for, set, macro or the end " +
                               "of the block that is open");
  }

  Result<StmtPtr> If(uint32_t offset) {
    StmtPtr stmt = Make(StmtKind::kIf, offset);
    for (;;) {
      Branch branch;
      KVERN_ASSIGN_OR_RETURN(branch.condition, expressions_.Tuple({.allows_conditional = false}));
      KVERN_RETURN_IF_ERROR(BodyBegin());
      KVERN_RETURN_IF_ERROR(Statements({"elif", "else", "endif"}, branch.body));
      stmt->branches.push_back(std::move(branch));
      if (!cursor_.TakeName("elif")) break;
    }
    if (cursor_.Take().text == "else") KVERN_RETURN_IF_ERROR(Body("endif", stmt->else_body));
    return stmt;
  }

  Result<StmtPtr> For(uint32_t offset) {
    StmtPtr stmt = Make(StmtKind::kFor, offset);
    KVERN_ASSIGN_OR_RETURN(stmt->target, expressions_.Target({.is_target = true, .end_name = "in"}));
    if (!cursor_.TakeName("in")) return cursor_.Unexpected("'in'");
    KVERN_ASSIGN_OR_RETURN(stmt->value, expressions_.Tuple({.allows_conditional = false, .end_name = "recursive"}));
    if (cursor_.TakeName("if")) {
      KVERN_ASSIGN_OR_RETURN(stmt->condition, expressions_.Expression());
    }
    stmt->is_recursive = cursor_.TakeName("recursive");
    KVERN_RETURN_IF_ERROR(BodyBegin());
    ++num_loops_;
    KVERN_RETURN_IF_ERROR(Statements({"else", "endfor"}, stmt->body));
    --num_loops_;
    if (cursor_.Take().text == "else") KVERN_RETURN_IF_ERROR(Body("endfor", stmt->else_body));
    return stmt;
  }

  Result<StmtPtr> Set(uint32_t offset) {
    StmtPtr stmt = Make(StmtKind::kSet, offset);
    KVERN_ASSIGN_OR_RETURN(stmt->target, expressions_.Target({.is_target = true, .allows_members = true}));
    if (cursor_.TakeOperator("=")) {
      KVERN_ASSIGN_OR_RETURN(stmt->value, expressions_.Tuple({}));
      return stmt;
    }
    stmt->kind = StmtKind::kSetBlock;
    KVERN_ASSIGN_OR_RETURN(stmt->value, expressions_.Filters(nullptr));
    KVERN_RETURN_IF_ERROR(OutsideOfLoops("endset", stmt->body));
    return stmt;
  }

  // A body that is rendered on its own: break cannot leave it.
  Status OutsideOfLoops(std::string_view end, Block& body) {
    const int num_loops = std::exchange(num_loops_, 0);
    KVERN_RETURN_IF_ERROR(Body(end, body));
    num_loops_ = num_loops;
    return Status::Ok();
  }

  Result<StmtPtr> Macro(uint32_t offset) {
    StmtPtr stmt = Make(StmtKind::kMacro, offset);
    if (!cursor_.Is(TokenKind::kName)) return cursor_.Unexpected("the name of the macro");
    stmt->text = cursor_.Take().text;
    stmt->symbol = expressions_.SymbolOf(stmt->text);
    KVERN_RETURN_IF_ERROR(Parameters(stmt->parameters));
    KVERN_RETURN_IF_ERROR(MacroBody("endmacro", *stmt));
    return stmt;
  }

  // What the body reads beyond its parameters decides which arguments a call may give.
  Status MacroBody(std::string_view end, Stmt& macro) {
    const uint32_t read_before = expressions_.TakeSymbolsRead();
    KVERN_RETURN_IF_ERROR(OutsideOfLoops(end, macro.body));
    const uint32_t read = expressions_.TakeSymbolsRead();
    expressions_.TakeSymbolsRead(read | read_before);
    const auto takes = [&](Symbol symbol) {
      return (read >> symbol & 1) != 0 && std::none_of(macro.parameters.begin(), macro.parameters.end(),
                                                       [&](const Parameter& p) { return p.symbol == symbol; });
    };
    macro.takes_caller = takes(kCallerSymbol);
    macro.takes_varargs = takes(kVarargsSymbol);
    macro.takes_kwargs = takes(kKwargsSymbol);
    return Status::Ok();
  }

  Status Parameters(std::vector<Parameter>& parameters) {
    std::set<Symbol> symbols;
    KVERN_RETURN_IF_ERROR(cursor_.ExpectOperator("("));
    while (!cursor_.IsOperator(")")) {
      if (!parameters.empty()) KVERN_RETURN_IF_ERROR(cursor_.ExpectOperator(","));
      if (!cursor_.Is(TokenKind::kName)) return cursor_.Unexpected("the name of a parameter");
      const uint32_t offset = cursor_.current().offset;
      Parameter parameter;
      parameter.name = cursor_.Take().text;
      parameter.symbol = expressions_.SymbolOf(parameter.name);
      if (!symbols.insert(parameter.symbol).second) {
        return cursor_.ErrorAt(offset, StatusCode::kCorruption, "there are two parameters " + Quoted(parameter.name));
      }
      if (cursor_.TakeOperator("=")) {
        KVERN_ASSIGN_OR_RETURN(parameter.default_value, expressions_.Expression());
      } else if (!parameters.empty() && parameters.back().default_value != nullptr) {
        return cursor_.Unexpected("'=', as the parameter before has a default,");
      }
      parameters.push_back(std::move(parameter));
    }
    cursor_.Take();
    return Status::Ok();
  }

  Result<StmtPtr> Call(uint32_t offset) {
    StmtPtr stmt = Make(StmtKind::kCall, offset);
    if (cursor_.IsOperator("(")) KVERN_RETURN_IF_ERROR(Parameters(stmt->parameters));
    KVERN_ASSIGN_OR_RETURN(stmt->value, expressions_.Expression());
    if (stmt->value->kind != ExprKind::kCall) {
      return cursor_.ErrorAt(offset, StatusCode::kCorruption, "expected a call of a macro after 'call'");
    }
    KVERN_RETURN_IF_ERROR(MacroBody("endcall", *stmt));
    return stmt;
  }

  Result<StmtPtr> Filter(uint32_t offset) {
    StmtPtr stmt = Make(StmtKind::kFilter, offset);
    KVERN_ASSIGN_OR_RETURN(stmt->value, expressions_.BlockFilters());
    KVERN_RETURN_IF_ERROR(OutsideOfLoops("endfilter", stmt->body));
    return stmt;
  }

  Result<StmtPtr> With(uint32_t offset) {
    StmtPtr stmt = Make(StmtKind::kWith, offset);
    while (!cursor_.Is(TokenKind::kBlockEnd)) {
      if (!stmt->bindings.empty()) KVERN_RETURN_IF_ERROR(cursor_.ExpectOperator(","));
      KVERN_ASSIGN_OR_RETURN(ExprPtr target, expressions_.Target({.is_target = true}));
      KVERN_RETURN_IF_ERROR(cursor_.ExpectOperator("="));
      KVERN_ASSIGN_OR_RETURN(ExprPtr value, expressions_.Expression());
      stmt->bindings.emplace_back(std::move(target), std::move(value));
    }
    KVERN_RETURN_IF_ERROR(Body("endwith", stmt->body));
    return stmt;
  }

  // Marks what the model says, for training; prints its body.
  Result<StmtPtr> Generation(uint32_t offset) {
    StmtPtr stmt = Make(StmtKind::kScope, offset);
    KVERN_RETURN_IF_ERROR(OutsideOfLoops("endgeneration", stmt->body));
    return stmt;
  }

  ExpressionParser expressions_;
  TokenCursor& cursor_;
  int num_loops_ = 0;  // Around the statement being parsed.
};

}  // namespace

Result<Template> ParseTemplate(std::string_view source) {
  Template result;
  result.source = NormalizedSource(source);
  KVERN_ASSIGN_OR_RETURN(std::vector<Token> tokens, Tokenize(result.source));
  KVERN_RETURN_IF_ERROR(Parser(TokenCursor(result.source, std::move(tokens))).Run(result));
  return result;
}

}  // namespace kvern::jinja
