#include "kvern/tokenizer.h"
#include "tokenizer/utf8.h"

namespace kvern {
namespace {
constexpr std::string_view kReplacement = "\xEF\xBF\xBD";  // U+FFFD
}

StreamDecoder::StreamDecoder(const Tokenizer& tokenizer, bool render_special)
    : tokenizer_(&tokenizer), render_special_(render_special) {}

std::string StreamDecoder::Push(TokenId token) {
  pending_ += tokenizer_->TokenBytes(token, render_special_);
  std::string text;
  std::string_view rest = pending_;
  while (!rest.empty()) {
    const Utf8Step step = NextUtf8(rest);
    if (step.kind == Utf8Kind::kIncomplete) break;
    text += step.kind == Utf8Kind::kCharacter ? rest.substr(0, step.length) : kReplacement;
    rest.remove_prefix(step.length);
  }
  pending_.erase(0, pending_.size() - rest.size());
  return text;
}

std::string StreamDecoder::Finish() {
  std::string text(pending_.empty() ? "" : kReplacement);
  pending_.clear();
  return text;
}

}  // namespace kvern
