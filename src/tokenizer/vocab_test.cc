#include "tokenizer/vocab.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

namespace kvern {
namespace {

using ::testing::HasSubstr;

VocabData SmallBpe() {
  VocabData vocab;
  vocab.model = "gpt2";
  vocab.pre = "gpt-2";
  vocab.tokens = {"a", "b", "ab", "<s>"};
  vocab.token_types = {1, 1, 1, 3};
  vocab.merges = {"a b"};
  vocab.bos_id = 3;
  return vocab;
}

VocabData SmallSpm() {
  VocabData vocab;
  vocab.model = "llama";
  vocab.tokens = {"<unk>", "<s>", "</s>", "▁", "a"};
  vocab.token_types = {2, 3, 3, 1, 1};
  vocab.scores = {0, 0, 0, -1, -2};
  vocab.bos_id = 1;
  vocab.eos_id = 2;
  return vocab;
}

void ExpectError(VocabData vocab, StatusCode code, const char* part_of_message) {
  const auto tokenizer = MakeTokenizer(std::move(vocab));

  ASSERT_FALSE(tokenizer.ok());
  EXPECT_EQ(tokenizer.status().code(), code);
  EXPECT_THAT(tokenizer.status().message(), HasSubstr(part_of_message));
}

TEST(MakeTokenizerTest, SmallVocabulariesAreFine) {
  EXPECT_TRUE(MakeTokenizer(SmallBpe()).ok());
  EXPECT_TRUE(MakeTokenizer(SmallSpm()).ok());
}

TEST(MakeTokenizerTest, UnknownModelsAreUnsupported) {
  VocabData vocab = SmallBpe();
  vocab.model = "bert\n";
  ExpectError(vocab, StatusCode::kUnsupported, "tokenizer.ggml.model is 'bert\\x0a', known are gpt2, llama");
}

TEST(MakeTokenizerTest, UnknownPreTokenizersAreUnsupported) {
  VocabData vocab = SmallBpe();
  vocab.pre = "kimi";
  ExpectError(vocab, StatusCode::kUnsupported, "unknown pre-tokenizer 'kimi', known are ");
}

TEST(MakeTokenizerTest, AMissingPreTokenizerMeansTheDefaultOne) {
  VocabData vocab = SmallBpe();
  vocab.pre.reset();
  const auto tokenizer = MakeTokenizer(vocab);

  ASSERT_TRUE(tokenizer.ok());
  EXPECT_EQ((*tokenizer)->Description(), "gpt2 (default)");
}

TEST(MakeTokenizerTest, AnEmptyVocabularyIsCorrupt) {
  VocabData vocab = SmallBpe();
  vocab.tokens.clear();
  ExpectError(vocab, StatusCode::kCorruption, "tokenizer.ggml.tokens is empty");
}

TEST(MakeTokenizerTest, ArraysOfOtherSizesAreCorrupt) {
  VocabData vocab = SmallBpe();
  vocab.token_types.push_back(1);
  ExpectError(vocab, StatusCode::kCorruption, "token_type has 5 entries, expected one for each of 4 tokens");

  vocab = SmallSpm();
  vocab.scores.pop_back();
  ExpectError(vocab, StatusCode::kCorruption, "scores has 4 entries, expected one for each of 5 tokens");
}

TEST(MakeTokenizerTest, SpmNeedsScores) {
  VocabData vocab = SmallSpm();
  vocab.scores.clear();
  ExpectError(vocab, StatusCode::kCorruption, "tokenizer.ggml.scores is missing");
}

TEST(MakeTokenizerTest, ScoresThatAreNoNumbersAreCorrupt) {
  VocabData vocab = SmallSpm();
  vocab.scores[4] = std::numeric_limits<float>::quiet_NaN();
  ExpectError(vocab, StatusCode::kCorruption, "scores[4] is not a number");
}

TEST(MakeTokenizerTest, IdsOutsideTheVocabularyAreCorrupt) {
  const std::pair<std::optional<uint32_t> VocabData::*, const char*> ids[] = {
      {&VocabData::bos_id, "bos_token_id"},     {&VocabData::eos_id, "eos_token_id"},
      {&VocabData::eot_id, "eot_token_id"},     {&VocabData::eom_id, "eom_token_id"},
      {&VocabData::unk_id, "unknown_token_id"}, {&VocabData::pad_id, "padding_token_id"}};
  for (const auto& [member, key] : ids) {
    for (const uint32_t id : {4u, 0x80000000u, 0xFFFFFFFFu}) {
      VocabData vocab = SmallBpe();
      vocab.*member = id;
      ExpectError(vocab, StatusCode::kCorruption, key);
    }
  }
}

TEST(MakeTokenizerTest, AddingATokenThatIsNotNamedIsCorrupt) {
  VocabData vocab = SmallBpe();
  vocab.add_eos = true;
  ExpectError(vocab, StatusCode::kCorruption, "add_eos_token is true, but there is no tokenizer.ggml.eos_token_id");

  vocab.add_eos = false;
  vocab.add_bos = true;
  vocab.bos_id.reset();
  ExpectError(vocab, StatusCode::kCorruption, "add_bos_token is true, but there is no tokenizer.ggml.bos_token_id");
}

TEST(MakeTokenizerTest, UnknownTokenTypesAreCorrupt) {
  for (const int32_t type : {0, 7, -1, std::numeric_limits<int32_t>::max()}) {
    VocabData vocab = SmallBpe();
    vocab.token_types[2] = type;
    ExpectError(vocab, StatusCode::kCorruption, "token_type[2] is ");
  }
}

TEST(MakeTokenizerTest, ByteTokensOfAnotherFormAreCorrupt) {
  for (const char* text : {"<0x4>", "<0x4G>", "<0x041>", "A", ""}) {
    VocabData vocab = SmallSpm();
    vocab.token_types[4] = 6;
    vocab.tokens[4] = text;
    ExpectError(vocab, StatusCode::kCorruption, "token_type[4] is 6 (byte)");
  }
}

TEST(MakeTokenizerTest, TwoTokensOfTheSameTextAreCorrupt) {
  VocabData vocab = SmallBpe();
  vocab.tokens[1] = vocab.tokens[0];
  ExpectError(vocab, StatusCode::kCorruption, "tokens[1] is 'a', as is token 0");

  vocab = SmallSpm();
  vocab.tokens[4] = vocab.tokens[1];
  ExpectError(vocab, StatusCode::kCorruption, "tokens[4] is '<s>', as is token 1");
}

TEST(MakeTokenizerTest, EmptyTokensAreFineAndNeverFound) {
  VocabData vocab = SmallBpe();
  vocab.tokens.push_back("");
  vocab.tokens.push_back("");
  vocab.token_types.push_back(1);
  vocab.token_types.push_back(4);
  const auto tokenizer = MakeTokenizer(vocab);

  ASSERT_TRUE(tokenizer.ok());
  EXPECT_EQ((*tokenizer)->Encode("ab")->size(), 1u);
  EXPECT_EQ((*tokenizer)->TokenBytes(4), "");
}

TEST(MakeTokenizerTest, MergesOfOtherFormsAreCorrupt) {
  for (const char* merge : {"", "a", "ab", "a ", " ab", "c b", "a c", "b a", "a b b"}) {
    VocabData vocab = SmallBpe();
    vocab.merges.push_back(merge);
    ExpectError(vocab, StatusCode::kCorruption, "tokenizer.ggml.merges[1] is '");
  }
}

}  // namespace
}  // namespace kvern
