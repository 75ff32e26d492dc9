// SPM (SentencePiece BPE): characters merge where their join is a token, best score first; what is no token at the end
// becomes byte tokens.
#include <algorithm>
#include <array>
#include <bit>
#include <deque>

#include "tokenizer/hash_index.h"
#include "tokenizer/merge_list.h"
#include "tokenizer/quoted.h"
#include "tokenizer/utf8.h"
#include "tokenizer/vocab_tokenizer.h"

namespace kvern {
namespace {

constexpr std::string_view kSpaceMark = "\xE2\x96\x81";  // U+2581 stands for a space in the vocabulary.

// `text` with every U+2581 as a space. Vocabulary and text are both compared in this form.
std::string WithSpaces(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  while (true) {
    const size_t mark = text.find(kSpaceMark);
    out += text.substr(0, mark);
    if (mark == std::string_view::npos) return out;
    out += ' ';
    text.remove_prefix(mark + kSpaceMark.size());
  }
}

// Order of the scores as integers, best first. `score` is a number.
uint32_t KeyOfScore(float score) {
  const auto bits = std::bit_cast<uint32_t>(score + 0.0f);  // -0 and 0 are one score.
  const uint32_t ascending = (bits & 0x80000000u) != 0 ? ~bits : bits | 0x80000000u;
  return ~ascending;
}

class SpmTokenizer final : public VocabTokenizer {
 public:
  static Result<std::unique_ptr<Tokenizer>> Create(VocabData vocab) {
    if (vocab.scores.empty()) {
      return Status::Corruption("tokenizer.ggml.scores is missing, expected one for each of " +
                                std::to_string(vocab.tokens.size()) + " tokens of the model 'llama'");
    }
    if (vocab.token_types.empty()) {
      for (const std::string& text : vocab.tokens) {
        vocab.token_types.push_back(static_cast<int32_t>(ParseByteToken(text) ? TokenType::kByte : TokenType::kNormal));
      }
    }
    auto tokenizer = std::unique_ptr<SpmTokenizer>(new SpmTokenizer(std::move(vocab)));
    KVERN_RETURN_IF_ERROR(tokenizer->Build());
    return std::unique_ptr<Tokenizer>(std::move(tokenizer));
  }

  std::string Description() const override { return "llama (SPM)"; }

 private:
  // What an unused token was merged from: it takes part in merging but is taken apart again at the end.
  struct Split {
    MergeSymbol left, right;
  };
  struct Scratch {
    std::string text;  // The fragment with the space put first, and with spaces for U+2581.
    std::vector<MergeSymbol> symbols;
    std::vector<uint64_t> heap;
    std::vector<Split> splits;
    std::vector<MergeSymbol> pending;
  };

  explicit SpmTokenizer(VocabData vocab)
      : VocabTokenizer(std::move(vocab), {.add_bos = true, .add_eos = false, .add_space_prefix = true}),
        id_of_text_(this->vocab().tokens.size()) {}

  Status Build();

  Status EncodeFragments(std::span<const Fragment> fragments, std::vector<TokenId>& ids) const override;
  Status EncodeText(const Fragment& fragment, bool put_space_first, Scratch& scratch, std::vector<TokenId>& ids) const;
  // Bytes at the front of `text` that merge with nothing behind them.
  size_t IndependentPrefix(std::string_view text) const;
  Status EncodePiece(size_t begin, size_t end, const Fragment& fragment, bool put_space_first, Scratch& scratch,
                     std::vector<TokenId>& ids) const;
  // Appends a symbol that is no token as byte tokens. `text` is scratch.text.
  Status AppendBytes(const MergeSymbol& symbol, const Fragment& fragment, bool put_space_first, std::string_view text,
                     std::vector<TokenId>& ids) const;
  std::string BytesOfText(std::string_view text) const override { return WithSpaces(text); }

  std::deque<std::string> spaced_texts_;  // Texts of tokens that hold U+2581, with spaces; id_of_text_ refers to them.
  TextIndex id_of_text_;
  size_t longest_text_ = 0;
  bool spaces_only_lead_ = true;  // No text has a space behind another character.
  std::array<TokenId, 256> id_of_byte_;
};

Status SpmTokenizer::Build() {
  const std::vector<std::string>& tokens = vocab().tokens;
  TextIndex raw(tokens.size());
  id_of_byte_.fill(-1);
  for (size_t i = 0; i < tokens.size(); ++i) {
    const auto id = static_cast<TokenId>(i);
    const std::string& text = tokens[i];
    if (text.empty()) continue;
    if (const TokenId other = raw.Insert(text, id); other != id) {
      return Status::Corruption("tokenizer.ggml.tokens[" + std::to_string(i) + "] is " + Quoted(text) +
                                ", as is token " + std::to_string(other));
    }
    if (type(id) == TokenType::kByte) {
      const auto byte = ParseByteToken(text);
      if (byte && id_of_byte_[*byte] < 0) id_of_byte_[*byte] = id;
    }
    // Text never holds a real space when it is looked up, so such tokens are found only as special ones.
    if (!IsTextToken(id) || text.find(' ') != std::string::npos) continue;
    std::string_view lookup = text;
    if (text.find(kSpaceMark) != std::string::npos) lookup = spaced_texts_.emplace_back(WithSpaces(text));
    id_of_text_.Insert(lookup, id);
    longest_text_ = std::max(longest_text_, lookup.size());
    const size_t first_other = lookup.find_first_not_of(' ');
    if (first_other != std::string_view::npos && lookup.find(' ', first_other) != std::string_view::npos) {
      spaces_only_lead_ = false;
    }
  }
  for (size_t byte = 0; byte < 256; ++byte) {
    const char c = static_cast<char>(byte);
    if (id_of_byte_[byte] >= 0) continue;
    const TokenId id = id_of_text_.Find({&c, 1});
    if (id >= 0 && type(id) != TokenType::kUnused) id_of_byte_[byte] = id;
  }
  return Status::Ok();
}

Status SpmTokenizer::EncodeFragments(std::span<const Fragment> fragments, std::vector<TokenId>& ids) const {
  Scratch scratch;
  bool follows_special = true;  // So does the first one.
  for (const Fragment& fragment : fragments) {
    if (fragment.token >= 0) {
      ids.push_back(fragment.token);
      follows_special = true;
    } else {
      KVERN_RETURN_IF_ERROR(EncodeText(fragment, follows_special && add_space_prefix(), scratch, ids));
      follows_special = false;
    }
  }
  return Status::Ok();
}

Status SpmTokenizer::EncodeText(const Fragment& fragment, bool put_space_first, Scratch& scratch,
                                std::vector<TokenId>& ids) const {
  scratch.text.assign(put_space_first ? 1 : 0, ' ');
  scratch.text += WithSpaces(fragment.text);
  for (size_t begin = 0; begin < scratch.text.size();) {
    const size_t end = begin + IndependentPrefix(std::string_view(scratch.text).substr(begin));
    KVERN_RETURN_IF_ERROR(EncodePiece(begin, end, fragment, put_space_first, scratch, ids));
    begin = end;
  }
  return Status::Ok();
}

// Where spaces only lead tokens, nothing merges across the border between a word and the space behind it. Merging word
// by word then gives the same tokens as merging the whole text, with a heap that stays in the cache.
size_t SpmTokenizer::IndependentPrefix(std::string_view text) const {
  if (!spaces_only_lead_) return text.size();
  const size_t word = text.find_first_not_of(' ');
  return word == std::string_view::npos ? text.size() : std::min(text.find(' ', word), text.size());
}

Status SpmTokenizer::EncodePiece(size_t begin, size_t end, const Fragment& fragment, bool put_space_first,
                                 Scratch& scratch, std::vector<TokenId>& ids) const {
  const std::string_view text = scratch.text;
  std::vector<MergeSymbol>& symbols = scratch.symbols;
  symbols.clear();
  for (size_t at = begin; at < end;) {
    const Utf8Step step = NextUtf8(text.substr(at, end - at));
    const size_t length = step.kind == Utf8Kind::kCharacter ? step.length : 1;
    const auto index = static_cast<int32_t>(symbols.size());
    symbols.push_back({index - 1, at + length < end ? index + 1 : -1, static_cast<uint32_t>(at),
                       static_cast<uint32_t>(length), id_of_text_.Find(text.substr(at, length))});
    at += length;
  }

  scratch.splits.clear();
  RunMerges(
      symbols, scratch.heap,
      [&](const MergeSymbol& left, const MergeSymbol& right, uint32_t& key, TokenId& merged) {
        const size_t length = size_t{left.length} + right.length;
        if (length > longest_text_) return false;
        merged = id_of_text_.Find(text.substr(left.begin, length));
        if (merged < 0) return false;
        key = KeyOfScore(vocab().scores[merged]);
        return true;
      },
      [&](MergeSymbol& left, const MergeSymbol& right) {
        if (type(left.merged) != TokenType::kUnused) return;
        scratch.splits.push_back({left, right});
        left.split = static_cast<int32_t>(scratch.splits.size()) - 1;
      });

  for (int32_t i = 0; i >= 0; i = symbols[i].next) {
    scratch.pending.assign(1, symbols[i]);
    while (!scratch.pending.empty()) {
      const MergeSymbol symbol = scratch.pending.back();
      scratch.pending.pop_back();
      if (symbol.id >= 0 && type(symbol.id) != TokenType::kUnused) {
        ids.push_back(symbol.id);
      } else if (symbol.id >= 0 && symbol.split >= 0) {
        scratch.pending.push_back(scratch.splits[symbol.split].right);
        scratch.pending.push_back(scratch.splits[symbol.split].left);
      } else {
        KVERN_RETURN_IF_ERROR(AppendBytes(symbol, fragment, put_space_first, text, ids));
      }
    }
  }
  return Status::Ok();
}

Status SpmTokenizer::AppendBytes(const MergeSymbol& symbol, const Fragment& fragment, bool put_space_first,
                                 std::string_view text, std::vector<TokenId>& ids) const {
  for (size_t i = 0; i < symbol.length; ++i) {
    const char byte = text[symbol.begin + i];
    const TokenId id = id_of_byte_[static_cast<uint8_t>(byte)];
    if (id >= 0) {
      ids.push_back(id);
      continue;
    }
    // Back to the caller's text, where U+2581 has three bytes and the first space may be ours.
    size_t rest = symbol.begin + i - std::min<size_t>(symbol.begin + i, put_space_first ? 1 : 0);
    size_t offset = 0;
    for (; rest > 0; --rest) offset += fragment.text.substr(offset).starts_with(kSpaceMark) ? kSpaceMark.size() : 1;
    return NoTokenForByte(byte, fragment.offset + offset);
  }
  return Status::Ok();
}

}  // namespace

Result<std::unique_ptr<Tokenizer>> MakeSpmTokenizer(VocabData vocab) { return SpmTokenizer::Create(std::move(vocab)); }

}  // namespace kvern
