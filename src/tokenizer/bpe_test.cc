#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>

#include "tokenizer/byte_alphabet.h"
#include "tokenizer/vocab.h"

namespace kvern {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Ids 0 to 255 are the bytes; each merge adds the token that it makes.
VocabData ByteVocab(std::vector<std::string> merges, std::string pre = "gpt-2") {
  VocabData vocab;
  vocab.model = "gpt2";
  vocab.pre = std::move(pre);
  for (int byte = 0; byte < 256; ++byte) {
    const char c = static_cast<char>(byte);
    AppendAsLetters({&c, 1}, vocab.tokens.emplace_back());
  }
  for (const std::string& merge : merges) {
    std::string text = merge;
    text.erase(text.find(' '), 1);
    vocab.tokens.push_back(text);
  }
  vocab.merges = std::move(merges);
  vocab.token_types.assign(vocab.tokens.size(), 1);
  return vocab;
}

TokenId Add(VocabData& vocab, std::string text, TokenType type) {
  vocab.tokens.push_back(std::move(text));
  vocab.token_types.push_back(static_cast<int32_t>(type));
  return static_cast<TokenId>(vocab.tokens.size()) - 1;
}

std::unique_ptr<Tokenizer> Make(VocabData vocab) {
  auto tokenizer = MakeTokenizer(std::move(vocab));
  EXPECT_TRUE(tokenizer.ok()) << tokenizer.status().ToString();
  return tokenizer.ok() ? std::move(*tokenizer) : nullptr;
}

std::vector<TokenId> Ids(const Tokenizer& tokenizer, std::string_view text, const EncodeOptions& options = {}) {
  auto ids = tokenizer.Encode(text, options);
  EXPECT_TRUE(ids.ok()) << ids.status().ToString();
  return ids.ok() ? *ids : std::vector<TokenId>{};
}

TEST(BpeTest, NothingHasNoTokens) { EXPECT_THAT(Ids(*Make(ByteVocab({})), ""), ElementsAre()); }

TEST(BpeTest, TheMergeOfLowestRankGoesFirst) {
  const auto tokenizer = Make(ByteVocab({"b c", "a b", "a bc"}));

  EXPECT_THAT(Ids(*tokenizer, "abc"), ElementsAre(258));
  EXPECT_THAT(Ids(*tokenizer, "ab"), ElementsAre(257));
}

TEST(BpeTest, EqualMergesGoFromTheLeft) {
  const auto tokenizer = Make(ByteVocab({"a a"}));

  EXPECT_THAT(Ids(*tokenizer, "aaaaa"), ElementsAre(256, 256, 'a'));
}

TEST(BpeTest, APairThatMergesTwiceKeepsItsFirstRank) {
  VocabData vocab = ByteVocab({"a b", "b c"});
  vocab.merges.push_back("a b");
  const auto tokenizer = Make(vocab);

  EXPECT_THAT(Ids(*tokenizer, "abc"), ElementsAre(256, 'c'));
}

TEST(BpeTest, MergesStayInsideAPiece) {
  const auto tokenizer = Make(ByteVocab({"Ġ b", "a Ġb"}));

  EXPECT_THAT(Ids(*tokenizer, "a b"), ElementsAre('a', 256));
}

TEST(BpeTest, AgreesWithMergingOnePairAtATime) {
  std::mt19937 random(3);
  for (int round = 0; round < 200; ++round) {
    std::vector<std::string> parts = {"a", "b", "c"};
    std::vector<std::string> merges;
    std::map<std::pair<std::string, std::string>, size_t> ranks;
    for (int i = 0; i < 12; ++i) {
      const std::string left = parts[random() % parts.size()], right = parts[random() % parts.size()];
      if (std::find(parts.begin(), parts.end(), left + right) != parts.end()) continue;
      parts.push_back(left + right);
      ranks[{left, right}] = merges.size();
      merges.push_back(left + " " + right);
    }
    const auto tokenizer = Make(ByteVocab(merges));
    std::vector<std::string> expected;
    std::string text;
    for (unsigned i = 0, length = random() % 30; i < length; ++i) {
      text += static_cast<char>('a' + random() % 3);
      expected.emplace_back(1, text.back());
    }

    while (true) {
      size_t best = expected.size(), best_rank = merges.size();
      for (size_t i = 0; i + 1 < expected.size(); ++i) {
        const auto it = ranks.find({expected[i], expected[i + 1]});
        if (it != ranks.end() && it->second < best_rank) best = i, best_rank = it->second;
      }
      if (best == expected.size()) break;
      expected[best] += expected[best + 1];
      expected.erase(expected.begin() + static_cast<ptrdiff_t>(best) + 1);
    }
    std::vector<std::string> found;
    for (const TokenId id : Ids(*tokenizer, text)) found.push_back(tokenizer->TokenBytes(id));

    ASSERT_EQ(found, expected) << text;
  }
}

TEST(BpeTest, WholeWordsWinOnlyWhereMergesAreIgnored) {
  VocabData vocab = ByteVocab({"a b"}, "llama-bpe");
  const TokenId word = Add(vocab, "abc", TokenType::kNormal);

  EXPECT_THAT(Ids(*Make(vocab), "abc"), ElementsAre(word));
  vocab.pre = "qwen2";
  EXPECT_THAT(Ids(*Make(vocab), "abc"), ElementsAre(256, 'c'));
}

TEST(BpeTest, BytesThatAreNoUtf8SurviveARoundTrip) {
  const auto tokenizer = Make(ByteVocab({"a b", "Ã ©"}));
  std::string bytes;
  for (int byte = 255; byte >= 0; --byte) bytes.push_back(static_cast<char>(byte));
  bytes += "\xE2\x82 \xC3\xA9 ab \xF0\x9F\x98";

  EXPECT_EQ(tokenizer->Decode(Ids(*tokenizer, bytes)), bytes);
}

TEST(BpeTest, AByteWithoutATokenIsNamedWithItsOffset) {
  VocabData vocab;
  vocab.model = "gpt2";
  vocab.pre = "gpt-2";
  vocab.tokens = {"a", "Ġ"};
  const auto ids = Make(vocab)->Encode("a a\na");

  ASSERT_FALSE(ids.ok());
  EXPECT_EQ(ids.status().code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(ids.status().message(), HasSubstr("byte 0x0A at offset 3"));
}

TEST(BpeTest, ALetterThatIsAUserDefinedTokenMeansTheLetterNotTheByte) {
  VocabData vocab = ByteVocab({});
  vocab.token_types[0xF5] = static_cast<int32_t>(TokenType::kUserDefined);
  const auto tokenizer = Make(vocab);

  EXPECT_THAT(Ids(*tokenizer, "õ"), ElementsAre(0xF5));
  EXPECT_EQ(tokenizer->TokenBytes(0xF5), "õ");
  EXPECT_FALSE(tokenizer->Encode("\xF5").ok());
}

TEST(BpeTest, UserDefinedTokensAreAlwaysCutOut) {
  VocabData vocab = ByteVocab({"x Ġ"});
  const TokenId spaces = Add(vocab, "  ", TokenType::kUserDefined);
  const auto tokenizer = Make(vocab);

  EXPECT_THAT(Ids(*tokenizer, "x   y"), ElementsAre('x', spaces, ' ', 'y'));
  EXPECT_EQ(tokenizer->Decode({'x', spaces}), "x  ");
}

TEST(BpeTest, ControlTokensAreTextUnlessParsed) {
  VocabData vocab = ByteVocab({});
  const TokenId control = Add(vocab, "<|x|>", TokenType::kControl);
  const auto tokenizer = Make(vocab);

  EXPECT_THAT(Ids(*tokenizer, "a<|x|>", {.parse_special = true}), ElementsAre('a', control));
  EXPECT_THAT(Ids(*tokenizer, "a<|x|>"), ElementsAre('a', '<', '|', 'x', '|', '>'));
  EXPECT_EQ(tokenizer->Decode({'a', control}), "a");
  EXPECT_EQ(tokenizer->Decode({'a', control}, /*render_special=*/true), "a<|x|>");
}

TEST(BpeTest, PlainTextNeverMergesIntoAControlToken) {
  VocabData vocab = ByteVocab({"a b"}, "llama-bpe");
  vocab.token_types[256] = static_cast<int32_t>(TokenType::kControl);

  EXPECT_THAT(Ids(*Make(vocab), "ab"), ElementsAre('a', 'b'));
}

TEST(BpeTest, BosAndEosFollowTheFileElseThePreTokenizer) {
  VocabData vocab = ByteVocab({});
  vocab.bos_id = 1;
  vocab.eos_id = 2;
  EXPECT_THAT(Ids(*Make(vocab), "a"), ElementsAre('a'));

  vocab.pre = "llama-bpe";
  EXPECT_THAT(Ids(*Make(vocab), "a"), ElementsAre(1, 'a'));
  EXPECT_THAT(Ids(*Make(vocab), "a", {.add_special = false}), ElementsAre('a'));

  vocab.add_bos = false;
  vocab.add_eos = true;
  EXPECT_THAT(Ids(*Make(vocab), "a"), ElementsAre('a', 2));
}

TEST(BpeTest, GenerationEndsAtNamedIdsAndAtWellKnownControlTokens) {
  VocabData vocab = ByteVocab({});
  vocab.eos_id = 10;
  vocab.eot_id = 11;
  vocab.eom_id = 12;
  const TokenId end = Add(vocab, "<|im_end|>", TokenType::kControl);
  const TokenId plain = Add(vocab, "<|eot_id|>", TokenType::kNormal);
  const TokenId other = Add(vocab, "<|im_start|>", TokenType::kControl);
  const auto tokenizer = Make(vocab);

  for (const TokenId id : {10, 11, 12, end}) EXPECT_TRUE(tokenizer->IsEndOfGeneration(id)) << id;
  for (const TokenId id : {9, plain, other, -1, 100000}) EXPECT_FALSE(tokenizer->IsEndOfGeneration(id)) << id;
  EXPECT_TRUE(tokenizer->IsControl(other));
  EXPECT_FALSE(tokenizer->IsControl(plain));
}

TEST(BpeTest, IdsOutsideTheVocabularyDecodeToNothing) {
  const auto tokenizer = Make(ByteVocab({}));

  EXPECT_EQ(tokenizer->Decode({'a', -1, 256, 1 << 30, 'b'}), "ab");
  EXPECT_EQ(tokenizer->TokenBytes(-5), "");
  EXPECT_FALSE(tokenizer->IsControl(-1));
}

TEST(BpeTest, ALongPieceMerges) {
  const auto tokenizer = Make(ByteVocab({"a a", "aa aa", "aaaa aaaa"}));
  const std::string text((1 << 16) + 5, 'a');

  const auto ids = Ids(*tokenizer, text);

  EXPECT_EQ(ids.size(), (1u << 13) + 2);
  EXPECT_EQ(tokenizer->Decode(ids), text);
}

}  // namespace
}  // namespace kvern
