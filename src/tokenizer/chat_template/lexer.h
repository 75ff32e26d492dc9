// Cuts the text of a template into tokens, as Jinja does with trim_blocks and lstrip_blocks: a newline after a block is
// dropped, so are spaces before a block that begins its line, and "-" beside a delimiter drops all white space there.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "kvern/status.h"

namespace kvern::jinja {

enum class TokenKind : uint8_t {
  kData,  // Text between the tags, white space already dropped.
  kVariableBegin,
  kVariableEnd,
  kBlockBegin,
  kBlockEnd,
  kName,
  kString,  // `text` is what stands between the quotes, escapes and all.
  kInteger,
  kFloat,
  kOperator,
  kEnd,
};

struct Token {
  TokenKind kind;
  uint32_t offset;  // In the source.
  std::string_view text;
};

// `source` with every kind of newline as \n, and without one at its end.
std::string NormalizedSource(std::string_view source);

// `source` is normalized, shorter than 4 GiB, and must outlive the tokens. The last token is kEnd. kCorruption with
// line and column where the text is no template.
Result<std::vector<Token>> Tokenize(std::string_view source);

// "line 3, column 14: ": of a byte of the source. Columns count characters.
std::string PlaceText(std::string_view source, uint32_t offset);

// What `token` is, for messages: "'endif'", "the end of the template".
std::string TokenText(const Token& token);

}  // namespace kvern::jinja
