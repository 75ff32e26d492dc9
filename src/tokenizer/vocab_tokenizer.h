// What BPE and SPM tokenizers share: the vocabulary, special tokens, BOS and EOS, decoding.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/special_tokens.h"
#include "tokenizer/vocab.h"

namespace kvern {

class VocabTokenizer : public Tokenizer {
 public:
  Result<std::vector<TokenId>> Encode(std::string_view text, const EncodeOptions& options) const final;
  std::string TokenBytes(TokenId token, bool render_special) const final;
  std::string Decode(const std::vector<TokenId>& tokens, bool render_special) const final;
  size_t vocab_size() const final { return vocab_.tokens.size(); }
  std::optional<TokenId> bos() const final { return bos_; }
  std::optional<TokenId> eos() const final { return eos_; }
  bool IsEndOfGeneration(TokenId token) const final;
  bool IsControl(TokenId token) const final { return InVocabulary(token) && type(token) == TokenType::kControl; }

 protected:
  // A stretch of the text between special tokens, or (token >= 0) one of these.
  struct Fragment {
    std::string_view text;
    size_t offset = 0;  // Of `text` in the text of Encode.
    TokenId token = -1;
  };
  struct Defaults {
    bool add_bos;
    bool add_eos;
    bool add_space_prefix;
  };

  // `vocab` has passed the checks of MakeTokenizer.
  VocabTokenizer(VocabData vocab, const Defaults& defaults);

  // Appends the ids of all fragments, special tokens included.
  virtual Status EncodeFragments(std::span<const Fragment> fragments, std::vector<TokenId>& ids) const = 0;
  // The bytes that the text of a normal or unused token stands for.
  virtual std::string BytesOfText(std::string_view text) const = 0;

  bool InVocabulary(TokenId token) const { return token >= 0 && static_cast<size_t>(token) < vocab_.tokens.size(); }
  TokenType type(TokenId token) const {
    return vocab_.token_types.empty() ? TokenType::kNormal : static_cast<TokenType>(vocab_.token_types[token]);
  }
  // Whether plain text may become this token.
  bool IsTextToken(TokenId token) const {
    const TokenType t = type(token);
    return t == TokenType::kNormal || t == TokenType::kUserDefined || t == TokenType::kUnused;
  }
  const VocabData& vocab() const { return vocab_; }
  bool add_space_prefix() const { return add_space_prefix_; }

 private:
  VocabData vocab_;
  std::optional<TokenId> bos_, eos_;
  bool add_bos_, add_eos_, add_space_prefix_;
  std::vector<TokenId> end_of_generation_;  // Sorted.
  SpecialTokenMatcher user_defined_;        // Cut out of every text.
  SpecialTokenMatcher all_special_;         // Cut out where control tokens are parsed.
};

// The byte of a token "<0x41>"; nullopt for any other text.
std::optional<uint8_t> ParseByteToken(std::string_view text);

// "byte 0x41 at offset 7 has no token in this vocabulary" (kInvalidArgument).
Status NoTokenForByte(char byte, size_t offset);

// Both expect a vocabulary that passed the checks common to all models.
Result<std::unique_ptr<Tokenizer>> MakeBpeTokenizer(VocabData vocab);
Result<std::unique_ptr<Tokenizer>> MakeSpmTokenizer(VocabData vocab);

}  // namespace kvern
