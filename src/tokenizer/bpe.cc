// Byte-level BPE: the pre-tokenizer cuts the text into pieces; in each, bytes merge by rank.
#include <array>

#include "tokenizer/byte_alphabet.h"
#include "tokenizer/hash_index.h"
#include "tokenizer/merge_list.h"
#include "tokenizer/pretokenizer.h"
#include "tokenizer/quoted.h"
#include "tokenizer/vocab_tokenizer.h"

namespace kvern {
namespace {

class BpeTokenizer final : public VocabTokenizer {
 public:
  static Result<std::unique_ptr<Tokenizer>> Create(VocabData vocab) {
    if (!vocab.pre) vocab.pre = "default";
    KVERN_ASSIGN_OR_RETURN(auto pretokenizer, PreTokenizer::Create(*vocab.pre));
    const std::vector<std::string> merges = std::move(vocab.merges);
    auto tokenizer = std::unique_ptr<BpeTokenizer>(new BpeTokenizer(std::move(vocab), std::move(pretokenizer)));
    KVERN_RETURN_IF_ERROR(tokenizer->Build(merges));
    return std::unique_ptr<Tokenizer>(std::move(tokenizer));
  }

  std::string Description() const override { return "gpt2 (" + *vocab().pre + ")"; }

 private:
  struct Scratch {
    std::vector<uint32_t> ends;
    std::vector<MergeSymbol> symbols;
    std::vector<uint64_t> heap;
    std::string letters;
  };

  BpeTokenizer(VocabData vocab, std::unique_ptr<PreTokenizer> pretokenizer)
      : VocabTokenizer(std::move(vocab),
                       {.add_bos = pretokenizer->adds_bos(), .add_eos = false, .add_space_prefix = false}),
        pretokenizer_(std::move(pretokenizer)),
        id_of_text_(this->vocab().tokens.size()) {}

  Status Build(const std::vector<std::string>& merges);

  Status EncodeFragments(std::span<const Fragment> fragments, std::vector<TokenId>& ids) const override;
  Status EncodePiece(std::string_view piece, size_t offset, Scratch& scratch, std::vector<TokenId>& ids) const;
  std::string BytesOfText(std::string_view text) const override { return BytesOfLetters(text); }

  std::unique_ptr<PreTokenizer> pretokenizer_;
  TextIndex id_of_text_;  // Text as in the file: the byte alphabet.
  MergeIndex merges_;
  std::array<TokenId, 256> id_of_byte_;  // -1: the vocabulary cannot write this byte.
};

Status BpeTokenizer::Build(const std::vector<std::string>& merges) {
  const std::vector<std::string>& tokens = vocab().tokens;
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (tokens[i].empty()) continue;
    const TokenId id = id_of_text_.Insert(tokens[i], static_cast<TokenId>(i));
    if (id != static_cast<TokenId>(i)) {
      return Status::Corruption("tokenizer.ggml.tokens[" + std::to_string(i) + "] is " + Quoted(tokens[i]) +
                                ", as is token " + std::to_string(id));
    }
  }

  std::string text;
  for (int byte = 0; byte < 256; ++byte) {
    text.clear();
    const char c = static_cast<char>(byte);
    AppendAsLetters({&c, 1}, text);
    const TokenId id = id_of_text_.Find(text);
    const bool stands_for_byte = id >= 0 && IsTextToken(id) && TokenBytes(id, false) == std::string_view(&c, 1);
    id_of_byte_[byte] = stands_for_byte ? id : -1;
  }

  merges_ = MergeIndex(merges.size());
  for (size_t rank = 0; rank < merges.size(); ++rank) {
    const std::string_view merge = merges[rank];
    const auto corrupt = [&](const std::string& what) {
      return Status::Corruption("tokenizer.ggml.merges[" + std::to_string(rank) + "] is " + Quoted(merge) + ": " +
                                what);
    };
    const size_t space = merge.find(' ', 1);
    if (space == std::string_view::npos || space + 1 == merge.size()) {
      return corrupt("expected two parts with a space between them");
    }
    const std::string_view left_text = merge.substr(0, space);
    const std::string_view right_text = merge.substr(space + 1);
    text.assign(left_text).append(right_text);
    const TokenId left = id_of_text_.Find(left_text);
    const TokenId right = id_of_text_.Find(right_text);
    const TokenId merged = id_of_text_.Find(text);
    if (left < 0) return corrupt("the left part is no token");
    if (right < 0) return corrupt("the right part is no token");
    if (merged < 0) return corrupt("what it makes is no token");
    // Plain text never becomes a control token.
    if (IsTextToken(merged)) merges_.Insert(left, right, static_cast<uint32_t>(rank), merged);
  }
  return Status::Ok();
}

Status BpeTokenizer::EncodeFragments(std::span<const Fragment> fragments, std::vector<TokenId>& ids) const {
  Scratch scratch;
  for (const Fragment& fragment : fragments) {
    if (fragment.token >= 0) {
      ids.push_back(fragment.token);
      continue;
    }
    KVERN_RETURN_IF_ERROR(pretokenizer_->Split(fragment.text, scratch.ends));
    size_t begin = 0;
    for (const uint32_t end : scratch.ends) {
      KVERN_RETURN_IF_ERROR(
          EncodePiece(fragment.text.substr(begin, end - begin), fragment.offset + begin, scratch, ids));
      begin = end;
    }
  }
  return Status::Ok();
}

Status BpeTokenizer::EncodePiece(std::string_view piece, size_t offset, Scratch& scratch,
                                 std::vector<TokenId>& ids) const {
  if (pretokenizer_->ignores_merges()) {
    scratch.letters.clear();
    AppendAsLetters(piece, scratch.letters);
    const TokenId id = id_of_text_.Find(scratch.letters);
    if (id >= 0 && IsTextToken(id)) {
      ids.push_back(id);
      return Status::Ok();
    }
  }
  std::vector<MergeSymbol>& symbols = scratch.symbols;
  symbols.clear();
  const auto last = static_cast<int32_t>(piece.size()) - 1;
  for (int32_t i = 0; i <= last; ++i) {
    const TokenId id = id_of_byte_[static_cast<uint8_t>(piece[i])];
    if (id < 0) return NoTokenForByte(piece[i], offset + static_cast<size_t>(i));
    symbols.push_back({i - 1, i < last ? i + 1 : -1, static_cast<uint32_t>(i), 1, id});
  }
  RunMerges(
      symbols, scratch.heap,
      [this](const MergeSymbol& left, const MergeSymbol& right, uint32_t& key, TokenId& merged) {
        const MergeIndex::Merge* merge = merges_.Find(left.id, right.id);
        if (merge == nullptr) return false;
        key = merge->rank;
        merged = merge->merged;
        return true;
      },
      [](const MergeSymbol&, const MergeSymbol&) {});
  for (int32_t i = 0; i >= 0; i = symbols[i].next) ids.push_back(symbols[i].id);
  return Status::Ok();
}

}  // namespace

Result<std::unique_ptr<Tokenizer>> MakeBpeTokenizer(VocabData vocab) { return BpeTokenizer::Create(std::move(vocab)); }

}  // namespace kvern
