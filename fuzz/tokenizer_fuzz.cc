// Any bytes through small BPE and SPM vocabularies come back as they were, and any vocabulary is refused or works.
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "tokenizer/byte_alphabet.h"
#include "tokenizer/pretokenizer.h"
#include "tokenizer/utf8.h"
#include "tokenizer/vocab.h"

namespace {

using namespace kvern;

constexpr std::string_view kSpaceMark = "\xE2\x96\x81";

void Add(VocabData& vocab, std::string text, TokenType type = TokenType::kNormal, float score = 0) {
  vocab.tokens.push_back(std::move(text));
  vocab.token_types.push_back(static_cast<int32_t>(type));
  vocab.scores.push_back(score);
}

void AddSpecialTokens(VocabData& vocab) {
  for (const char* text : {"<|im_start|>", "<|im_end|>", "<s>", "<s"}) Add(vocab, text, TokenType::kControl);
  for (const char* text : {"  ", "    ", "\n\n", "aab", "abb"}) Add(vocab, text, TokenType::kUserDefined);
}

std::unique_ptr<Tokenizer> MakeBpe(const std::string& pre) {
  VocabData vocab;
  vocab.model = "gpt2";
  vocab.pre = pre;
  for (int byte = 0; byte < 256; ++byte) {
    const char c = static_cast<char>(byte);
    std::string letter;
    AppendAsLetters({&c, 1}, letter);
    Add(vocab, letter);
  }
  for (const char* merge : {"Ġ a", "a b", "b a", "Ġ Ġ", "a a", "aa aa", "Ġa b", "Ã ©", "ð Ł", "ðŁ ĺ", "1 2", "ab ba"}) {
    vocab.merges.emplace_back(merge);
    std::string text = merge;
    text.erase(text.find(' '), 1);
    Add(vocab, text);
  }
  AddSpecialTokens(vocab);
  auto tokenizer = MakeTokenizer(std::move(vocab));
  KVERN_CHECK(tokenizer.ok());
  return std::move(*tokenizer);
}

std::unique_ptr<Tokenizer> MakeSpm(bool add_space_prefix) {
  constexpr char kHex[] = "0123456789ABCDEF";
  VocabData vocab;
  vocab.model = "llama";
  vocab.add_space_prefix = add_space_prefix;
  for (int byte = 0; byte < 256; ++byte) {
    Add(vocab, std::string("<0x") + kHex[byte >> 4] + kHex[byte & 15] + ">", TokenType::kByte);
  }
  float score = 0;
  for (const char* text : {"▁", "▁a", "ab", "a", "ba", "b", "▁▁", "▁ab", "é", "aa", "aaaa", "▁▁▁▁", "😀", "b▁"}) {
    Add(vocab, text, TokenType::kNormal, score -= 1);
  }
  Add(vocab, "bb", TokenType::kUnused, -3);
  Add(vocab, "bbb", TokenType::kUnused, -2);
  AddSpecialTokens(vocab);
  auto tokenizer = MakeTokenizer(std::move(vocab));
  KVERN_CHECK(tokenizer.ok());
  return std::move(*tokenizer);
}

std::string WithSpaces(std::string text) {
  for (size_t at = 0; (at = text.find(kSpaceMark, at)) != std::string::npos;) text.replace(at, kSpaceMark.size(), " ");
  return text;
}

void CheckRoundTrip(const Tokenizer& tokenizer, std::string_view text, const std::string& expected,
                    bool parse_special) {
  const auto ids = tokenizer.Encode(text, {.add_special = false, .parse_special = parse_special});
  KVERN_CHECK(ids.ok());
  KVERN_CHECK(tokenizer.Decode(*ids, /*render_special=*/true) == expected);

  StreamDecoder decoder(tokenizer, /*render_special=*/true);
  std::string streamed;
  for (const TokenId id : *ids) {
    const std::string part = decoder.Push(id);
    KVERN_CHECK(WellFormedPrefix(part) == part.size());
    streamed += part;
  }
  streamed += decoder.Finish();
  if (WellFormedPrefix(text) == text.size() && tokenizer.Description().starts_with("gpt2")) {
    KVERN_CHECK(streamed == text);
  }
}

// A vocabulary out of the input: lines are tokens, whose first byte says type and score.
void TryVocabulary(std::string_view data) {
  VocabData vocab;
  const std::string_view text = data.substr(0, data.size() / 2);
  std::string_view rest = data.substr(data.size() / 2);
  if (rest.size() < 3) return;
  vocab.model = rest[0] % 2 == 0 ? "gpt2" : "llama";
  vocab.pre = rest[0] % 4 == 0 ? "smollm" : "llama-bpe";
  vocab.bos_id = static_cast<uint8_t>(rest[1]) % 8;
  vocab.eos_id = static_cast<uint8_t>(rest[2]) % 8;
  vocab.add_eos = rest[0] % 3 == 0;
  rest.remove_prefix(3);
  while (!rest.empty()) {
    const size_t end = std::min(rest.find('\n'), rest.size());
    const std::string_view line = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    if (line.empty()) continue;
    if (line[0] == 'm') {
      vocab.merges.emplace_back(line.substr(1));
    } else {
      Add(vocab, std::string(line.substr(1)), static_cast<TokenType>(line[0] % 8), static_cast<float>(line[0]));
    }
  }
  const auto tokenizer = MakeTokenizer(std::move(vocab));
  if (!tokenizer.ok()) return;
  for (const bool parse_special : {false, true}) {
    const auto ids = (*tokenizer)->Encode(text, {.parse_special = parse_special});
    if (!ids.ok()) continue;
    for (const TokenId id : *ids) KVERN_CHECK(id >= 0 && static_cast<size_t>(id) < (*tokenizer)->vocab_size());
    (*tokenizer)->Decode(*ids, true);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const auto* const kBpe = [] {
    auto* tokenizers = new std::vector<std::unique_ptr<Tokenizer>>;
    for (const char* pre : {"gpt-2", "llama-bpe", "qwen2", "qwen35", "smollm", "deepseek-llm", "deepseek-coder",
                            "deepseek-v3", "tekken", "falcon", "default"}) {
      tokenizers->push_back(MakeBpe(pre));
    }
    return tokenizers;
  }();
  static const Tokenizer* const kSpm[] = {MakeSpm(false).release(), MakeSpm(true).release()};

  if (size == 0) return 0;
  const uint8_t choice = data[0];
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  const bool parse_special = choice >= 128;
  CheckRoundTrip(*(*kBpe)[choice % kBpe->size()], text, std::string(text), parse_special);
  CheckRoundTrip(*kSpm[choice % 2], text, WithSpaces(std::string(text)), parse_special);
  TryVocabulary(text);
  return 0;
}
