#include "tokenizer/chat_template/token_cursor.h"

#include "tokenizer/quoted.h"

namespace kvern::jinja {

Status TokenCursor::ErrorAt(uint32_t offset, StatusCode code, const std::string& message) const {
  return Status(code, PlaceText(source_, offset) + message);
}

Status TokenCursor::Unexpected(std::string_view expected) const {
  return ErrorAt(current().offset, StatusCode::kCorruption,
                 "expected " + std::string(expected) + ", found " + TokenText(current()));
}

Status TokenCursor::ExpectOperator(std::string_view text) {
  if (TakeOperator(text)) return Status::Ok();
  return Unexpected(Quoted(text));
}

Status TokenCursor::Expect(TokenKind kind, std::string_view expected) {
  if (!Is(kind)) return Unexpected(expected);
  Take();
  return Status::Ok();
}

}  // namespace kvern::jinja
