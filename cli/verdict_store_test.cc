#include "cli/verdict_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <limits>

namespace kvern::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

const CodecPair kF16 = {KvType::kF16, KvType::kF16};

class VerdictStoreTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = testing::TempDir() + "kvern-verdicts-XXXXXX";
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    directory_ = pattern;
  }
  void TearDown() override { std::filesystem::remove_all(directory_); }
  std::string path() const { return directory_ + "/below/verdicts.json"; }
  void Write(const std::string& text) const {
    std::filesystem::create_directories(directory_ + "/below");
    std::ofstream(path()) << text;
  }

  std::string directory_;
};

CodecVerdict Verdict(char digit, bool is_passed) {
  return {.model_digest = std::string(64, digit),
          .codecs = "f16",
          .gate = "16-bit",
          .is_passed = is_passed,
          .num_tokens = 8192,
          .kld_mean = {1.5e-4, 1e-5},
          .same_top = {0.99, 0.001}};
}

TEST_F(VerdictStoreTest, AVerdictOutlivesTheProcess) {
  ASSERT_TRUE(VerdictStore(path()).Record(Verdict('a', false)).ok());

  const auto found = VerdictStore(path()).Find(std::string(64, 'a'), kF16);

  ASSERT_TRUE(found);
  EXPECT_FALSE(found->is_passed);
  EXPECT_EQ(found->gate, "16-bit");
  EXPECT_EQ(found->num_tokens, 8192u);
  EXPECT_EQ(found->kld_mean.value, 1.5e-4);
  EXPECT_EQ(found->same_top.error, 0.001);
}

TEST_F(VerdictStoreTest, AVerdictOfOtherNumericsIsOfAnotherCodec) {
  ASSERT_TRUE(VerdictStore(path()).Record(Verdict('a', false)).ok());
  std::ifstream in(path());
  std::string text((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  const std::string now = "\"numerics\": " + std::to_string(NumericsVersion());
  ASSERT_NE(text.find(now), std::string::npos) << text;
  text.replace(text.find(now), now.size(), "\"numerics\": 1");
  Write(text);

  EXPECT_FALSE(VerdictStore(path()).Find(std::string(64, 'a'), kF16));
}

TEST_F(VerdictStoreTest, OtherModelsAndCodecsHaveNone) {
  VerdictStore store(path());
  ASSERT_TRUE(store.Record(Verdict('a', true)).ok());

  EXPECT_FALSE(store.Find(std::string(64, 'b'), kF16));
  EXPECT_FALSE(store.Find(std::string(64, 'a'), {KvType::kF32, KvType::kF16}));
}

TEST_F(VerdictStoreTest, ANewVerdictTakesThePlaceOfTheOld) {
  VerdictStore store(path());
  ASSERT_TRUE(store.Record(Verdict('a', false)).ok());
  ASSERT_TRUE(store.Record(Verdict('b', true)).ok());

  ASSERT_TRUE(store.Record(Verdict('a', true)).ok());

  EXPECT_TRUE(store.Find(std::string(64, 'a'), kF16)->is_passed);
  EXPECT_THAT(VerdictStore(path()).AllOf(std::string(64, 'a')), SizeIs(1));
}

TEST_F(VerdictStoreTest, AnInfiniteDivergenceIsStillAFailure) {
  CodecVerdict verdict = Verdict('a', false);
  verdict.kld_mean.value = std::numeric_limits<double>::infinity();
  ASSERT_TRUE(VerdictStore(path()).Record(verdict).ok());

  const auto found = VerdictStore(path()).Find(std::string(64, 'a'), kF16);

  ASSERT_TRUE(found);
  EXPECT_EQ(found->kld_mean.value, std::numeric_limits<double>::infinity());
}

TEST_F(VerdictStoreTest, AnAbsentFileIsEmpty) {
  const VerdictStore store(path());

  EXPECT_THAT(store.warning(), IsEmpty());
  EXPECT_THAT(store.AllOf(std::string(64, 'a')), IsEmpty());
}

TEST_F(VerdictStoreTest, ADamagedFileIsSaidPassedOverAndReplaced) {
  for (const char* text : {"{", "[1, 2]", "not json \xff", "{\"format\": 2}", "{\"format\": \"1\"}", "{}"}) {
    Write(text);

    VerdictStore store(path());

    EXPECT_THAT(store.warning(), HasSubstr("verdicts.json")) << text;
    EXPECT_THAT(store.AllOf(std::string(64, 'a')), IsEmpty());
    ASSERT_TRUE(store.Record(Verdict('a', true)).ok());
    EXPECT_THAT(VerdictStore(path()).AllOf(std::string(64, 'a')), SizeIs(1));
  }
}

TEST_F(VerdictStoreTest, EntriesThatAreNoVerdictsAreLeftOut) {
  const std::string digest(64, 'a');
  Write(
      "{\"format\": 1, \"digests\": {\"x\": 7, \"y\": \"short\"}, \"verdicts\": [null, 3, {}, {\"model\": \"zz\"},"
      "{\"model\": \"" +
      digest +
      "\", \"codecs\": \"f16\", \"is_passed\": \"yes\","
      "\"tokens\": 1}, {\"model\": \"" +
      digest +
      "\", \"codecs\": \"f16\", "
      "\"is_passed\": true, \"tokens\": -1}]}");

  const VerdictStore store(path());

  EXPECT_THAT(store.warning(), IsEmpty());
  EXPECT_THAT(store.AllOf(digest), IsEmpty());
}

TEST_F(VerdictStoreTest, APlaceThatCannotBeWrittenIsAnErrorWithItsPath) {
  Write("");

  const Status status = VerdictStore(path() + "/file/below").Record(Verdict('a', true));

  EXPECT_EQ(status.code(), StatusCode::kIoError);
  EXPECT_THAT(status.message(), HasSubstr("verdicts.json"));
}

}  // namespace
}  // namespace kvern::cli
