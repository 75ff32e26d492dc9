#include "tokenizer/vocab_tokenizer.h"

#include <algorithm>
#include <limits>

namespace kvern {
namespace {

// Control tokens that end generation even where no id of the file says so.
constexpr std::string_view kEndTexts[] = {"<|im_end|>",    "<|eot_id|>", "<|end|>", "<|endoftext|>",
                                          "<end_of_turn>", "<|eom_id|>", "</s>"};

std::optional<TokenId> ToTokenId(const std::optional<uint32_t>& id) {
  if (!id) return std::nullopt;
  return static_cast<TokenId>(*id);
}

}  // namespace

VocabTokenizer::VocabTokenizer(VocabData vocab, const Defaults& defaults)
    : vocab_(std::move(vocab)),
      bos_(ToTokenId(vocab_.bos_id)),
      eos_(ToTokenId(vocab_.eos_id)),
      add_bos_(vocab_.add_bos.value_or(defaults.add_bos) && bos_),
      add_eos_(vocab_.add_eos.value_or(defaults.add_eos) && eos_),
      add_space_prefix_(vocab_.add_space_prefix.value_or(defaults.add_space_prefix)) {
  for (const auto& id : {vocab_.eos_id, vocab_.eot_id, vocab_.eom_id}) {
    if (id) end_of_generation_.push_back(static_cast<TokenId>(*id));
  }
  std::vector<SpecialToken> user_defined, all;
  for (TokenId id = 0; InVocabulary(id) && !vocab_.token_types.empty(); ++id) {
    const std::string& text = vocab_.tokens[id];
    const TokenType t = type(id);
    if (t == TokenType::kUserDefined) user_defined.push_back({text, id});
    if (t == TokenType::kUserDefined || t == TokenType::kControl || t == TokenType::kUnknown) all.push_back({text, id});
    if (t == TokenType::kControl &&
        std::find(std::begin(kEndTexts), std::end(kEndTexts), text) != std::end(kEndTexts)) {
      end_of_generation_.push_back(id);
    }
  }
  std::sort(end_of_generation_.begin(), end_of_generation_.end());
  user_defined_ = SpecialTokenMatcher(std::move(user_defined));
  all_special_ = SpecialTokenMatcher(std::move(all));
}

Result<std::vector<TokenId>> VocabTokenizer::Encode(std::string_view text, const EncodeOptions& options) const {
  if (text.size() > static_cast<size_t>(std::numeric_limits<int32_t>::max())) {
    return Status::InvalidArgument("text to encode has " + std::to_string(text.size()) + " bytes, limit " +
                                   std::to_string(std::numeric_limits<int32_t>::max()));
  }
  std::vector<Fragment> fragments;
  size_t at = 0;
  for (const SpecialMatch& match : (options.parse_special ? all_special_ : user_defined_).Find(text)) {
    if (match.begin > at) fragments.push_back({text.substr(at, match.begin - at), at});
    fragments.push_back({{}, match.begin, match.id});
    at = match.end;
  }
  if (at < text.size()) fragments.push_back({text.substr(at), at});

  std::vector<TokenId> ids;
  ids.reserve(text.size() / 3 + 2);
  if (options.add_special && add_bos_) ids.push_back(*bos_);
  KVERN_RETURN_IF_ERROR(EncodeFragments(fragments, ids));
  if (options.add_special && add_eos_) ids.push_back(*eos_);
  return ids;
}

std::string VocabTokenizer::TokenBytes(TokenId token, bool render_special) const {
  if (!InVocabulary(token)) return {};
  const std::string& text = vocab_.tokens[token];
  switch (type(token)) {
    case TokenType::kUnknown:
    case TokenType::kControl: return render_special ? text : std::string();
    case TokenType::kUserDefined: return text;
    case TokenType::kByte:
      if (const auto byte = ParseByteToken(text)) return std::string(1, static_cast<char>(*byte));
      return text;
    case TokenType::kNormal:
    case TokenType::kUnused: break;
  }
  return BytesOfText(text);
}

std::string VocabTokenizer::Decode(const std::vector<TokenId>& tokens, bool render_special) const {
  std::string text;
  // Encoding puts a space before text that is first or follows a special token.
  bool drop_space = add_space_prefix_;
  for (const TokenId token : tokens) {
    if (!InVocabulary(token)) continue;
    const std::string bytes = TokenBytes(token, render_special);
    const TokenType t = type(token);
    if (t == TokenType::kControl || t == TokenType::kUnknown || t == TokenType::kUserDefined) {
      text += bytes;
      drop_space = add_space_prefix_;
    } else {
      text += drop_space && bytes.starts_with(' ') ? std::string_view(bytes).substr(1) : std::string_view(bytes);
      drop_space = drop_space && bytes.empty();
    }
  }
  return text;
}

bool VocabTokenizer::IsEndOfGeneration(TokenId token) const {
  return std::binary_search(end_of_generation_.begin(), end_of_generation_.end(), token);
}

std::optional<uint8_t> ParseByteToken(std::string_view text) {
  if (text.size() != 6 || !text.starts_with("<0x") || text[5] != '>') return std::nullopt;
  int value = 0;
  for (const char c : text.substr(3, 2)) {
    const int digit = c >= '0' && c <= '9'   ? c - '0'
                      : c >= 'A' && c <= 'F' ? c - 'A' + 10
                      : c >= 'a' && c <= 'f' ? c - 'a' + 10
                                             : -1;
    if (digit < 0) return std::nullopt;
    value = value * 16 + digit;
  }
  return static_cast<uint8_t>(value);
}

Status NoTokenForByte(char byte, size_t offset) {
  constexpr char kHex[] = "0123456789ABCDEF";
  const auto value = static_cast<uint8_t>(byte);
  return Status::InvalidArgument(std::string("text to encode: byte 0x") + kHex[value >> 4] + kHex[value & 15] +
                                 " at offset " + std::to_string(offset) + " has no token in this vocabulary");
}

}  // namespace kvern
