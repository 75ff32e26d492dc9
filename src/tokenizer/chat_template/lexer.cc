#include "tokenizer/chat_template/lexer.h"

#include <algorithm>
#include <array>

#include "tokenizer/chat_template/characters.h"
#include "tokenizer/quoted.h"

namespace kvern::jinja {
namespace {

constexpr std::array<std::string_view, 6> kLongOperators = {"//", "**", "==", "!=", ">=", "<="};
constexpr std::string_view kShortOperators = "+-/*%~[](){}><=.:|,;";

bool IsDigit(char c) { return c >= '0' && c <= '9'; }
bool IsHexDigit(char c) { return IsDigit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F'); }
bool IsNameStart(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }

class Lexer {
 public:
  explicit Lexer(std::string_view source) : source_(source) {}

  Result<std::vector<Token>> Run() {
    while (at_ < source_.size()) KVERN_RETURN_IF_ERROR(DataAndTag());
    Add(TokenKind::kEnd, at_, at_);
    return std::move(tokens_);
  }

 private:
  Status Error(size_t offset, const std::string& message) const {
    return Status::Corruption(PlaceText(source_, static_cast<uint32_t>(offset)) + message);
  }

  void Add(TokenKind kind, size_t begin, size_t end) {
    tokens_.push_back({kind, static_cast<uint32_t>(begin), source_.substr(begin, end - begin)});
  }

  char Peek(size_t ahead = 0) const { return at_ + ahead < source_.size() ? source_[at_ + ahead] : '\0'; }
  bool StartsWith(std::string_view text) const { return source_.substr(at_).starts_with(text); }
  void SkipSpace() { at_ = source_.size() - StripStart(source_.substr(at_)).size(); }

  // Text up to the next tag, and that tag.
  Status DataAndTag() {
    const size_t begin = at_;
    size_t open = source_.find('{', at_);
    while (open != source_.npos && (open + 1 == source_.size() || !IsTagLetter(source_[open + 1]))) {
      open = source_.find('{', open + 1);
    }
    if (open == source_.npos) {
      Add(TokenKind::kData, begin, source_.size());
      at_ = source_.size();
      return Status::Ok();
    }
    at_ = open + 2;
    const char kind = source_[open + 1];
    const char sign = TakeSign();
    AddData(begin, open, sign, /*is_block=*/kind != '{');
    line_starts_ = false;
    if (kind == '#') return Comment(open);
    if (kind == '%' && IsRawTag()) return Raw(open);
    Add(kind == '{' ? TokenKind::kVariableBegin : TokenKind::kBlockBegin, open, at_);
    return Tag(open, kind == '{' ? "}}" : "%}");
  }

  static bool IsTagLetter(char c) { return c == '{' || c == '%' || c == '#'; }

  char TakeSign() {
    if (Peek() != '-' && Peek() != '+') return '\0';
    return source_[at_++];
  }

  // The text before a tag at `end` whose sign is given.
  void AddData(size_t begin, size_t end, char sign, bool is_block) {
    std::string_view text = source_.substr(begin, end - begin);
    if (sign == '-') {
      text = StripEnd(text);
    } else if (sign != '+' && is_block) {
      const size_t line = text.rfind('\n') + 1;  // 0 where there is no newline.
      if ((line > 0 || line_starts_) && StripStart(text.substr(line)).empty()) text = text.substr(0, line);
    }
    if (!text.empty()) Add(TokenKind::kData, begin, begin + text.size());
  }

  // After "%}" or "#}", which stand just before at_ and had `sign` before them.
  void AfterBlock(char sign) {
    const size_t end = at_;
    if (sign == '-') {
      SkipSpace();
    } else if (sign != '+' && Peek() == '\n') {
      ++at_;
    }
    line_starts_ = at_ > end && source_[at_ - 1] == '\n';
  }

  Status Comment(size_t open) {
    const size_t close = source_.find("#}", at_);
    if (close == source_.npos) return Error(open, "this comment has no end, expected '#}'");
    const char sign = close > at_ ? source_[close - 1] : '\0';
    at_ = close + 2;
    AfterBlock(sign);
    return Status::Ok();
  }

  // Whether "raw" and the end of a block follow; moves past them if so.
  bool IsRawTag() {
    const size_t begin = at_;
    SkipSpace();
    if (StartsWith("raw")) {
      at_ += 3;
      SkipSpace();
      if (StartsWith("%}")) return at_ += 2, true;
      if (StartsWith("-%}")) return at_ += 3, SkipSpace(), true;
    }
    at_ = begin;
    return false;
  }

  Status Raw(size_t open) {
    const size_t begin = at_;
    for (size_t tag = at_; (tag = source_.find("{%", tag)) != source_.npos; tag += 2) {
      at_ = tag + 2;
      const char sign = TakeSign();
      SkipSpace();
      if (!StartsWith("endraw")) continue;
      at_ += 6;
      SkipSpace();
      const char close_sign = StartsWith("-%}") || StartsWith("+%}") ? Peek() : '\0';
      if (close_sign != '\0') ++at_;
      if (!StartsWith("%}")) continue;
      at_ += 2;
      AddData(begin, tag, sign, /*is_block=*/true);
      AfterBlock(close_sign);
      return Status::Ok();
    }
    return Error(open, "this raw block has no end, expected '{% endraw %}'");
  }

  // The tokens of a tag that began at `open`, its end included.
  Status Tag(size_t open, std::string_view close) {
    std::vector<char> expected;  // What closes the brackets that are open.
    for (;;) {
      SkipSpace();
      if (at_ == source_.size()) {
        return Error(open, "this tag has no end, expected '" + std::string(close) + "'");
      }
      if (expected.empty() && TakeTagEnd(close)) return Status::Ok();
      KVERN_RETURN_IF_ERROR(Part(expected));
    }
  }

  bool TakeTagEnd(std::string_view close) {
    const bool is_block = close == "%}";
    const bool has_sign = Peek() == '-' || (Peek() == '+' && is_block);
    if (!source_.substr(at_ + has_sign).starts_with(close)) return false;
    const char sign = has_sign ? Peek() : '\0';
    const size_t begin = at_;
    at_ += has_sign + close.size();
    Add(is_block ? TokenKind::kBlockEnd : TokenKind::kVariableEnd, begin, at_);
    if (is_block) {
      AfterBlock(sign);
    } else {
      const size_t end = at_;
      if (sign == '-') SkipSpace();
      line_starts_ = at_ > end && source_[at_ - 1] == '\n';
    }
    return true;
  }

  // One token inside a tag.
  Status Part(std::vector<char>& expected) {
    const size_t begin = at_;
    const char c = Peek();
    if (IsDigit(c)) {
      Number();
      return Status::Ok();
    }
    if (IsNameStart(c)) {
      while (IsNameStart(Peek()) || IsDigit(Peek())) ++at_;
      Add(TokenKind::kName, begin, at_);
      return Status::Ok();
    }
    if (c == '\'' || c == '"') return String();
    for (const std::string_view op : kLongOperators) {
      if (!StartsWith(op)) continue;
      at_ += op.size();
      Add(TokenKind::kOperator, begin, at_);
      return Status::Ok();
    }
    if (kShortOperators.find(c) == kShortOperators.npos || c == '\0') {
      const std::string_view bytes = FirstCharacter(source_.substr(at_)).bytes;
      return Error(begin, "unexpected character " + Quoted(bytes) + " in a tag");
    }
    ++at_;
    Add(TokenKind::kOperator, begin, at_);
    return Balance(begin, c, expected);
  }

  Status Balance(size_t offset, char c, std::vector<char>& expected) const {
    if (c == '(') expected.push_back(')');
    if (c == '[') expected.push_back(']');
    if (c == '{') expected.push_back('}');
    if (c != ')' && c != ']' && c != '}') return Status::Ok();
    if (expected.empty()) return Error(offset, std::string("unexpected '") + c + "', no bracket is open");
    if (expected.back() != c) {
      return Error(offset, std::string("unexpected '") + c + "', expected '" + expected.back() + "'");
    }
    expected.pop_back();
    return Status::Ok();
  }

  void Digits() {
    while (IsDigit(Peek()) || (Peek() == '_' && IsDigit(Peek(1)))) ++at_;
  }

  void Number() {
    const size_t begin = at_;
    const char base = static_cast<char>(Peek(1) | 0x20);
    if (Peek() == '0' && (base == 'x' || base == 'b' || base == 'o') && (IsHexDigit(Peek(2)) || Peek(2) == '_')) {
      at_ += 2;
      while (IsHexDigit(Peek()) || (Peek() == '_' && IsHexDigit(Peek(1)))) ++at_;
      Add(TokenKind::kInteger, begin, at_);
      return;
    }
    Digits();
    bool is_float = false;
    // In a.1.2 the parts are integers.
    if (begin == 0 || source_[begin - 1] != '.') {
      if (Peek() == '.' && IsDigit(Peek(1))) {
        is_float = true;
        ++at_;
        Digits();
      }
      const size_t sign = Peek(1) == '+' || Peek(1) == '-' ? 1 : 0;
      if ((Peek() | 0x20) == 'e' && IsDigit(Peek(1 + sign))) {
        is_float = true;
        at_ += 1 + sign;
        Digits();
      }
    }
    Add(is_float ? TokenKind::kFloat : TokenKind::kInteger, begin, at_);
  }

  Status String() {
    const size_t begin = at_;
    const char quote = source_[at_++];
    while (at_ < source_.size() && source_[at_] != quote) at_ += source_[at_] == '\\' ? 2 : 1;
    if (at_ >= source_.size()) return Error(begin, std::string("this string has no end, expected ") + quote);
    Add(TokenKind::kString, begin + 1, at_);
    ++at_;
    return Status::Ok();
  }

  std::string_view source_;
  size_t at_ = 0;
  bool line_starts_ = true;  // The text that follows begins a line.
  std::vector<Token> tokens_;
};

}  // namespace

std::string NormalizedSource(std::string_view source) {
  std::string text;
  text.reserve(source.size());
  for (size_t i = 0; i < source.size(); ++i) {
    if (source[i] != '\r') {
      text += source[i];
      continue;
    }
    text += '\n';
    if (i + 1 < source.size() && source[i + 1] == '\n') ++i;
  }
  if (text.ends_with('\n')) text.pop_back();
  return text;
}

Result<std::vector<Token>> Tokenize(std::string_view source) { return Lexer(source).Run(); }

std::string PlaceText(std::string_view source, uint32_t offset) {
  const std::string_view before = source.substr(0, offset);
  const auto line = 1 + std::count(before.begin(), before.end(), '\n');
  const std::string_view in_line = before.substr(before.rfind('\n') + 1);
  return "line " + std::to_string(line) + ", column " + std::to_string(1 + CountCharacters(in_line)) + ": ";
}

std::string TokenText(const Token& token) {
  switch (token.kind) {
    case TokenKind::kData: return "text";
    case TokenKind::kEnd: return "the end of the template";
    case TokenKind::kString: return "the string " + Quoted(token.text);
    default: return Quoted(token.text);
  }
}

}  // namespace kvern::jinja
