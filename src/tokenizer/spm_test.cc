#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "tokenizer/vocab.h"

namespace kvern {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class SpmTest : public ::testing::Test {
 protected:
  // Ids 0 to 255 are the bytes.
  SpmTest() {
    constexpr char kHex[] = "0123456789ABCDEF";
    vocab_.model = "llama";
    vocab_.add_bos = false;
    for (int byte = 0; byte < 256; ++byte) {
      Add(std::string("<0x") + kHex[byte >> 4] + kHex[byte & 15] + ">", 0, TokenType::kByte);
    }
  }

  TokenId Add(std::string text, float score = 0, TokenType type = TokenType::kNormal) {
    vocab_.tokens.push_back(std::move(text));
    vocab_.scores.push_back(score);
    vocab_.token_types.push_back(static_cast<int32_t>(type));
    return static_cast<TokenId>(vocab_.tokens.size()) - 1;
  }

  std::unique_ptr<Tokenizer> Make() {
    auto tokenizer = MakeTokenizer(vocab_);
    EXPECT_TRUE(tokenizer.ok()) << tokenizer.status().ToString();
    return tokenizer.ok() ? std::move(*tokenizer) : nullptr;
  }

  std::vector<TokenId> Ids(std::string_view text, const EncodeOptions& options = {}) {
    auto ids = Make()->Encode(text, options);
    EXPECT_TRUE(ids.ok()) << ids.status().ToString();
    return ids.ok() ? *ids : std::vector<TokenId>{};
  }

  VocabData vocab_;
};

TEST_F(SpmTest, ASpaceIsPutFirst) {
  const TokenId space = Add("▁"), a = Add("a"), space_a = Add("▁a", -1);

  EXPECT_THAT(Ids("a"), ElementsAre(space_a));
  EXPECT_THAT(Ids(" a"), ElementsAre(space, space_a));
  EXPECT_THAT(Ids(""), ElementsAre());
  EXPECT_EQ(Make()->Decode({space_a}), "a");
  EXPECT_EQ(Make()->Decode({space, space_a, a}), " aa");
}

TEST_F(SpmTest, NoSpaceIsPutFirstWhereTheFileSaysSo) {
  vocab_.add_space_prefix = false;
  const TokenId a = Add("a"), space_a = Add("▁a");
  Add("▁");

  EXPECT_THAT(Ids("a a"), ElementsAre(a, space_a));
  EXPECT_EQ(Make()->Decode({space_a}), " a");
}

TEST_F(SpmTest, TheBestScoreMergesFirst) {
  vocab_.add_space_prefix = false;
  const TokenId a = Add("a"), c = Add("c"), ab = Add("ab", -2), bc = Add("bc", -1);
  Add("b");

  EXPECT_THAT(Ids("abc"), ElementsAre(a, bc));
  vocab_.scores[static_cast<size_t>(ab)] = 0.5f;
  EXPECT_THAT(Ids("abc"), ElementsAre(ab, c));
}

TEST_F(SpmTest, EqualScoresMergeFromTheLeftWhateverTheSignOfZero) {
  vocab_.add_space_prefix = false;
  const TokenId a = Add("a"), aa = Add("aa", -0.0f), ab = Add("ab", 0.0f), b = Add("b");

  EXPECT_THAT(Ids("aaa"), ElementsAre(aa, a));
  EXPECT_THAT(Ids("aab"), ElementsAre(aa, b));
  EXPECT_THAT(Ids("aaab"), ElementsAre(aa, ab));
}

TEST_F(SpmTest, CharactersWithoutATokenBecomeBytes) {
  vocab_.add_space_prefix = false;
  const TokenId a = Add("a");

  EXPECT_THAT(Ids("a€"), ElementsAre(a, 0xE2, 0x82, 0xAC));
  EXPECT_EQ(Make()->Decode({a, 0xE2, 0x82, 0xAC}), "a€");
}

TEST_F(SpmTest, BytesThatAreNoUtf8SurviveARoundTrip) {
  Add("▁");
  Add("é");
  std::string bytes = "\xE2\x82 \xC3\xA9\xC3";
  for (int byte = 255; byte >= 0; --byte) bytes.push_back(static_cast<char>(byte));

  EXPECT_EQ(Make()->Decode(Ids(bytes)), bytes);
}

TEST_F(SpmTest, TextThatLooksLikeAByteTokenIsText) {
  Add("<0x4");
  Add("1>");
  for (const char* part : {"<", "0", "x", "4", "1", ">", "<0", "<0x"}) Add(part);

  EXPECT_EQ(Make()->Decode(Ids("<0x41>")), "<0x41>");
}

TEST_F(SpmTest, WithoutTypesByteTokensAreKnownByTheirForm) {
  vocab_.token_types.clear();

  EXPECT_EQ(Make()->TokenBytes(0x41), "A");
  EXPECT_THAT(Ids("A", {}), ElementsAre(' ', 'A'));
}

TEST_F(SpmTest, AByteWithoutATokenIsNamedWithItsOffset) {
  VocabData vocab;
  vocab.model = "llama";
  vocab.tokens = {"▁", "a"};
  vocab.scores = {0, 0};
  const auto tokenizer = MakeTokenizer(vocab);
  ASSERT_TRUE(tokenizer.ok());

  const auto ids = (*tokenizer)->Encode("a▁a\na");

  ASSERT_FALSE(ids.ok());
  EXPECT_EQ(ids.status().code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(ids.status().message(), HasSubstr("byte 0x0A at offset 5"));
}

TEST_F(SpmTest, UnusedTokensHelpToMergeButAreTakenApartAgain) {
  vocab_.add_space_prefix = false;
  const TokenId a = Add("a"), c = Add("c");
  Add("b");
  const TokenId ab = Add("ab", -1, TokenType::kUnused);
  const TokenId abc = Add("abc", -2);

  EXPECT_THAT(Ids("abc"), ElementsAre(abc));
  EXPECT_THAT(Ids("abab"), ElementsAre(a, a + 2, a, a + 2));
  vocab_.token_types[static_cast<size_t>(abc)] = static_cast<int32_t>(TokenType::kUnused);
  EXPECT_THAT(Ids("abc"), ElementsAre(a, a + 2, c));
  EXPECT_EQ(Make()->TokenBytes(ab), "ab");
}

TEST_F(SpmTest, SpecialTokensAreCutOutAndASpaceFollowsThem) {
  const TokenId control = Add("<s>", 0, TokenType::kControl);
  const TokenId user = Add("[x]", 0, TokenType::kUserDefined);
  const TokenId space = Add("▁"), a = Add("a");

  EXPECT_THAT(Ids("a[x]a"), ElementsAre(space, a, user, space, a));
  EXPECT_THAT(Ids("<s>a", {.parse_special = true}), ElementsAre(control, space, a));
  EXPECT_THAT(Ids("<s>"), ElementsAre(space, '<', 's', '>'));
  EXPECT_EQ(Make()->Decode(Ids("a[x]a[x][x] a")), "a[x]a[x][x] a");
}

TEST_F(SpmTest, PlainTextNeverMergesIntoAControlToken) {
  vocab_.add_space_prefix = false;
  const TokenId a = Add("a"), b = Add("b");
  Add("ab", 5, TokenType::kControl);

  EXPECT_THAT(Ids("ab"), ElementsAre(a, b));
}

TEST_F(SpmTest, RunsOfSpacesMayBeUserDefined) {
  vocab_.add_space_prefix = false;
  const TokenId two = Add("  ", -1000, TokenType::kUserDefined), three = Add("   ", -1000, TokenType::kUserDefined);
  const TokenId space_a = Add("▁a");
  Add("▁");
  Add("a");

  EXPECT_THAT(Ids("     "), ElementsAre(three, two));
  EXPECT_THAT(Ids("    a"), ElementsAre(three, space_a));
  EXPECT_EQ(Make()->Decode({three, space_a}), "    a");
}

TEST_F(SpmTest, BosComesByDefaultAndEosDoesNot) {
  vocab_.add_bos.reset();
  vocab_.bos_id = 1;
  vocab_.eos_id = 2;
  const TokenId space = Add("▁"), a = Add("a");

  EXPECT_THAT(Ids("a"), ElementsAre(1, space, a));
  EXPECT_THAT(Ids(""), ElementsAre(1));
  vocab_.add_eos = true;
  EXPECT_THAT(Ids("a"), ElementsAre(1, space, a, 2));
}

TEST_F(SpmTest, MergesCrossTheSpaceBehindAWordWhereATokenDoes) {
  vocab_.add_space_prefix = false;
  for (const char* part : {"a", "b", "▁", "a▁"}) Add(part, -1);
  const TokenId phrase = Add("a▁b", -2);

  EXPECT_THAT(Ids("a b"), ElementsAre(phrase));
}

// The definition: always the best pair of the whole text, leftmost first.
TEST_F(SpmTest, AgreesWithMergingOnePairAtATime) {
  vocab_.add_space_prefix = false;
  for (const char* part : {"a", "b", "▁", "▁a", "ab", "ba", "aa", "▁▁", "▁ab", "aba", "abab", "▁▁a", "bab"}) {
    Add(part, -static_cast<float>(vocab_.tokens.size() * 7 % 5));
  }
  const auto tokenizer = Make();
  std::mt19937 random(9);
  for (int round = 0; round < 500; ++round) {
    std::vector<std::string> parts;
    std::string text;
    for (unsigned i = 0, length = random() % 40; i < length; ++i) {
      text += "ab "[random() % 3];
      parts.push_back(text.back() == ' ' ? "▁" : std::string(1, text.back()));
    }
    while (true) {
      size_t best = parts.size();
      float best_score = 0;
      for (size_t i = 0; i + 1 < parts.size(); ++i) {
        const auto it = std::find(vocab_.tokens.begin(), vocab_.tokens.end(), parts[i] + parts[i + 1]);
        if (it == vocab_.tokens.end()) continue;
        const float score = vocab_.scores[static_cast<size_t>(it - vocab_.tokens.begin())];
        if (best == parts.size() || score > best_score) best = i, best_score = score;
      }
      if (best == parts.size()) break;
      parts[best] += parts[best + 1];
      parts.erase(parts.begin() + static_cast<ptrdiff_t>(best) + 1);
    }
    std::vector<std::string> found;
    const auto ids = tokenizer->Encode(text);
    ASSERT_TRUE(ids.ok());
    for (const TokenId id : *ids) found.push_back(vocab_.tokens[static_cast<size_t>(id)]);

    ASSERT_EQ(found, parts) << text;
  }
}

}  // namespace
}  // namespace kvern
