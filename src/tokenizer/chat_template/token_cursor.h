// TokenCursor: the place of a parser in the tokens of a template, and the errors that name it.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "kvern/status.h"
#include "tokenizer/chat_template/lexer.h"

namespace kvern::jinja {

// The last token is kEnd and is never passed.
class TokenCursor {
 public:
  TokenCursor(std::string_view source, std::vector<Token> tokens) : source_(source), tokens_(std::move(tokens)) {}

  const Token& current() const { return tokens_[at_]; }
  const Token& next() const { return tokens_[at_ + 1 < tokens_.size() ? at_ + 1 : at_]; }
  const Token& Take() {
    const Token& token = tokens_[at_];
    if (at_ + 1 < tokens_.size()) ++at_;
    return token;
  }
  bool Is(TokenKind kind) const { return current().kind == kind; }
  bool IsOperator(std::string_view text) const { return Is(TokenKind::kOperator) && current().text == text; }
  bool IsName(std::string_view text) const { return Is(TokenKind::kName) && current().text == text; }
  bool TakeOperator(std::string_view text) { return IsOperator(text) && (Take(), true); }
  bool TakeName(std::string_view text) { return IsName(text) && (Take(), true); }

  // "line 1, column 4: expected ')', found 'x'".
  Status Unexpected(std::string_view expected) const;
  Status ErrorAt(uint32_t offset, StatusCode code, const std::string& message) const;
  Status ExpectOperator(std::string_view text);
  Status Expect(TokenKind kind, std::string_view expected);

 private:
  std::string_view source_;
  std::vector<Token> tokens_;
  size_t at_ = 0;
};

}  // namespace kvern::jinja
