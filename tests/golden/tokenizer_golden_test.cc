// Tokenizers against published ones: the nine vocabularies in $KVERN_TEST_DATA/tokenizers, each with 46 texts and the
// ids that the vocabulary's own project expects (no special tokens added or parsed), and the SmolLM2 model file.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <random>
#include <sstream>
#include <string>

#include "engine/vocab_from_gguf.h"
#include "platform/file_system.h"

namespace kvern {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr EncodeOptions kPlain{.add_special = false, .parse_special = false};
constexpr const char* kDefaultModel = "models/SmolLM2-135M-Instruct.Q4_1.gguf";

std::unique_ptr<Tokenizer> LoadTokenizer(const std::string& path) {
  auto file = GgufFile::Open(PosixFileSystem(), path);
  if (!file.ok()) {
    ADD_FAILURE() << file.status().ToString();
    return nullptr;
  }
  auto vocab = VocabFromGguf(*file);
  if (!vocab.ok()) {
    ADD_FAILURE() << vocab.status().ToString();
    return nullptr;
  }
  auto tokenizer = MakeTokenizer(std::move(*vocab));
  if (!tokenizer.ok()) {
    ADD_FAILURE() << path << ": " << tokenizer.status().ToString();
    return nullptr;
  }
  return std::move(*tokenizer);
}

std::string ReadAll(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream out;
  out << in.rdbuf();
  EXPECT_TRUE(in) << "cannot read " << path;
  return out.str();
}

// The texts of an .inp file: between them "\n__ggml_vocab_test__\n", which also ends the last one.
std::vector<std::string> SplitTexts(const std::string& content) {
  const std::string separator = "\n__ggml_vocab_test__\n";
  std::vector<std::string> texts;
  size_t begin = 0;
  for (size_t end; (end = content.find(separator, begin)) != std::string::npos; begin = end + separator.size()) {
    texts.push_back(content.substr(begin, end - begin));
  }
  return texts;
}

std::vector<std::vector<TokenId>> ParseIds(const std::string& content) {
  std::vector<std::vector<TokenId>> lines;
  std::istringstream in(content);
  for (std::string line; std::getline(in, line);) {
    std::istringstream numbers(line);
    lines.emplace_back();
    for (TokenId id; numbers >> id;) lines.back().push_back(id);
  }
  return lines;
}

std::string RandomBytes(std::mt19937& random, size_t length) {
  std::string bytes;
  while (bytes.size() < length) bytes.push_back(static_cast<char>(random() & 0xFF));
  return bytes;
}

void AppendUtf8(uint32_t c, std::string& out) {
  if (c < 0x80) {
    out += static_cast<char>(c);
    return;
  }
  if (c < 0x800) {
    out += static_cast<char>(0xC0 | (c >> 6));
  } else {
    if (c < 0x10000) {
      out += static_cast<char>(0xE0 | (c >> 12));
    } else {
      out += static_cast<char>(0xF0 | (c >> 18));
      out += static_cast<char>(0x80 | ((c >> 12) & 0x3F));
    }
    out += static_cast<char>(0x80 | ((c >> 6) & 0x3F));
  }
  out += static_cast<char>(0x80 | (c & 0x3F));
}

// Characters from all planes, the more common ones more often. Without U+2581: SPM reads it as a space.
std::string RandomText(std::mt19937& random, size_t num_characters) {
  constexpr uint32_t kLimits[] = {0x80, 0x80, 0x250, 0x3000, 0x10000, 0x20000, 0x110000};
  std::string text;
  for (size_t i = 0; i < num_characters; ++i) {
    const uint32_t c = random() % kLimits[random() % std::size(kLimits)];
    if (random() % 5 == 0) text += ' ';
    if ((c >= 0xD800 && c < 0xE000) || c == 0x2581) continue;
    AppendUtf8(c, text);
  }
  return text;
}

// Published vocabularies lack tokens for some bytes: control characters, and bytes that UTF-8 never has.
std::string BytesWithoutToken(const Tokenizer& tokenizer) {
  std::string bytes;
  for (int byte = 0; byte < 256; ++byte) {
    const std::string text(1, static_cast<char>(byte));
    if (!tokenizer.Encode(text, kPlain).ok()) bytes += text;
  }
  return bytes;
}

// Decode(Encode(text)) == text, or the first byte of `text` in `bytes_without_token` is named.
void ExpectRoundTrip(const Tokenizer& tokenizer, const std::string& text, const std::string& bytes_without_token) {
  const size_t unwritable = text.find_first_of(bytes_without_token);
  const auto ids = tokenizer.Encode(text, kPlain);

  if (unwritable == std::string::npos) {
    ASSERT_TRUE(ids.ok()) << ids.status().ToString();
    EXPECT_EQ(tokenizer.Decode(*ids), text);
  } else {
    ASSERT_FALSE(ids.ok());
    EXPECT_EQ(ids.status().code(), StatusCode::kInvalidArgument);
    EXPECT_THAT(ids.status().message(), HasSubstr(" at offset " + std::to_string(unwritable) + " has no token"));
  }
}

void ExpectRoundTripOfRandomText(const Tokenizer& tokenizer) {
  const std::string bytes_without_token = BytesWithoutToken(tokenizer);
  std::mt19937 random(1);
  for (size_t length = 0; length < 300; ++length) {
    ExpectRoundTrip(tokenizer, RandomText(random, length), bytes_without_token);
    std::string bytes = RandomBytes(random, length);
    ExpectRoundTrip(tokenizer, bytes, bytes_without_token);
    std::erase_if(bytes, [&](char c) { return bytes_without_token.find(c) != std::string::npos; });
    ExpectRoundTrip(tokenizer, bytes, bytes_without_token);
  }
}

class PublishedVocabularyTest : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    const char* data = std::getenv("KVERN_TEST_DATA");
    if (data == nullptr) GTEST_SKIP() << "KVERN_TEST_DATA is not set: it names the folder that holds tokenizers/";
    path_ = std::string(data) + "/tokenizers/ggml-vocab-" + GetParam() + ".gguf";
    tokenizer_ = LoadTokenizer(path_);
    ASSERT_NE(tokenizer_, nullptr);
  }

  std::string path_;
  std::unique_ptr<Tokenizer> tokenizer_;
};

TEST_P(PublishedVocabularyTest, EncodesEveryTextToTheExpectedIds) {
  const auto texts = SplitTexts(ReadAll(path_ + ".inp"));
  const auto expected = ParseIds(ReadAll(path_ + ".out"));

  ASSERT_EQ(texts.size(), 46u);
  ASSERT_EQ(expected.size(), texts.size());
  for (size_t i = 0; i < texts.size(); ++i) {
    const auto ids = tokenizer_->Encode(texts[i], kPlain);
    ASSERT_TRUE(ids.ok()) << ids.status().ToString();
    EXPECT_EQ(*ids, expected[i]) << "text " << i << ": " << texts[i];
  }
}

TEST_P(PublishedVocabularyTest, DecodesWhatItEncoded) {
  for (const std::string& text : SplitTexts(ReadAll(path_ + ".inp"))) ExpectRoundTrip(*tokenizer_, text, "");
  ExpectRoundTripOfRandomText(*tokenizer_);
}

INSTANTIATE_TEST_SUITE_P(AllVocabularies, PublishedVocabularyTest,
                         ::testing::Values("deepseek-coder", "deepseek-llm", "falcon", "gpt-2", "llama-spm", "mpt",
                                           "phi-3", "refact", "starcoder"),
                         [](const auto& test) {
                           std::string name = test.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

class SmolLm2TokenizerTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const char* model = std::getenv("KVERN_MODEL");
    const std::string path = model != nullptr ? model : kDefaultModel;
    if (path.find("SmolLM2") == std::string::npos || !std::ifstream(path)) {
      GTEST_SKIP() << "no SmolLM2 model at '" << path << "': fetch it with scripts/fetch_model.sh smollm2";
    }
    tokenizer_ = LoadTokenizer(path);
    ASSERT_NE(tokenizer_, nullptr);
  }

  std::vector<TokenId> Ids(const std::string& text, const EncodeOptions& options) {
    auto ids = tokenizer_->Encode(text, options);
    EXPECT_TRUE(ids.ok()) << ids.status().ToString();
    return ids.ok() ? *ids : std::vector<TokenId>{};
  }

  std::unique_ptr<Tokenizer> tokenizer_;
};

TEST_F(SmolLm2TokenizerTest, EncodesTheTextsOfTheGoldenFile) {
  // Ids by transformers 5 for HuggingFaceTB/SmolLM2-135M-Instruct.
  EXPECT_THAT(Ids("The capital of France is", {}), ElementsAre(504, 3575, 282, 4649, 314));
  EXPECT_THAT(Ids("1 2 3 4 5 6 7 8", {}),
              ElementsAre(33, 216, 34, 216, 35, 216, 36, 216, 37, 216, 38, 216, 39, 216, 40));
  EXPECT_THAT(Ids("def fibonacci(n):\n    if n < 2:\n        return n\n    return", {}),
              ElementsAre(1604, 3987, 46477, 24, 94, 727, 472, 585, 304, 2067, 216, 34, 42, 448, 1003, 304, 472, 1003));
}

TEST_F(SmolLm2TokenizerTest, ControlTokensAreParsedOnlyOnRequest) {
  EXPECT_THAT(Ids("<|im_start|>", {.parse_special = true}), ElementsAre(1));

  const auto plain = Ids("<|im_start|>", {});
  EXPECT_GT(plain.size(), 1u);
  EXPECT_EQ(tokenizer_->Decode(plain), "<|im_start|>");
}

TEST_F(SmolLm2TokenizerTest, KnowsItsSpecialTokens) {
  EXPECT_EQ(tokenizer_->vocab_size(), 49152u);
  EXPECT_EQ(tokenizer_->bos(), 1);
  EXPECT_EQ(tokenizer_->eos(), 2);
  EXPECT_TRUE(tokenizer_->IsEndOfGeneration(0));  // <|endoftext|>
  EXPECT_TRUE(tokenizer_->IsEndOfGeneration(2));
  EXPECT_FALSE(tokenizer_->IsEndOfGeneration(1));
  EXPECT_EQ(tokenizer_->TokenBytes(1), "");
  EXPECT_EQ(tokenizer_->TokenBytes(1, /*render_special=*/true), "<|im_start|>");
  EXPECT_EQ(tokenizer_->Description(), "gpt2 (smollm)");
}

TEST_F(SmolLm2TokenizerTest, DecodesWhatItEncoded) { ExpectRoundTripOfRandomText(*tokenizer_); }

}  // namespace
}  // namespace kvern
