// Quality, diagnosis and digest on a small model in a real file.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "kvern/kv_diagnostics.h"
#include "kvern/model_digest.h"
#include "kvern/quality.h"
#include "tests/support/tiny_model.h"

namespace kvern {
namespace {

using testing::HasSubstr;
using testing::SizeIs;

class TinyAnalysisTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = testing::TempDir() + "kvern-analysis-XXXXXX";
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    directory_ = pattern;
    Write(path(), TinyModelBytes(spec_));
  }
  void TearDown() override { std::filesystem::remove_all(directory_); }

  static void Write(const std::string& path, const std::vector<uint8_t>& bytes) {
    std::ofstream out(path, std::ios::binary);
    out.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  }
  std::string path() const { return directory_ + "/tiny.gguf"; }
  EngineOptions Options() const {
    EngineOptions options;
    options.model_path = path();
    return options;
  }
  QualityRequest Request(uint32_t num_tokens, KvType type) const {
    QualityRequest request;
    request.engine = Options();
    request.tokens = RandomTokens(num_tokens, spec_.vocab_size, 5);
    request.sequence_tokens = 100;
    CacheOptions candidate;
    candidate.k_type = candidate.v_type = type;
    request.candidates = {candidate};
    return request;
  }

  const TinyModelSpec spec_ = {.vocab_size = 272, .context_tokens = 256, .has_tokenizer = true};
  std::string directory_;
};

void ExpectEqual(const QualityNumbers& a, const QualityNumbers& b) {
  EXPECT_EQ(a.num_tokens, b.num_tokens);
  EXPECT_EQ(a.kld_mean.value, b.kld_mean.value);
  EXPECT_EQ(a.kld_mean.error, b.kld_mean.error);
  EXPECT_EQ(a.kld_p99.value, b.kld_p99.value);
  EXPECT_EQ(a.kld_max, b.kld_max);
  EXPECT_EQ(a.same_top.value, b.same_top.value);
  EXPECT_EQ(a.rms_delta_p.value, b.rms_delta_p.value);
  EXPECT_EQ(a.nll_difference.value, b.nll_difference.value);
  EXPECT_EQ(a.reference_nll.value, b.reference_nll.value);
}

TEST_F(TinyAnalysisTest, TheReferenceAgainstItselfLosesExactlyNothing) {
  const auto reports = MeasureQuality(Request(150, KvType::kF32));

  ASSERT_TRUE(reports.ok()) << reports.status().ToString();
  ASSERT_THAT(*reports, SizeIs(1));
  EXPECT_EQ(reports->front().all.num_tokens, 149u);
  EXPECT_EQ(reports->front().all.kld_max, 0);
  EXPECT_EQ(reports->front().all.same_top.value, 1);
  EXPECT_EQ(reports->front().all.nll_difference.value, 0);
}

TEST_F(TinyAnalysisTest, LargeChunksGiveTheNumbersOfTokenByToken) {
  QualityRequest request = Request(150, KvType::kF16);
  request.engine.prefill_chunk = 512;
  const auto chunked = MeasureQuality(request);
  request.engine.prefill_chunk = 1;
  request.engine.num_threads = 1;

  const auto single = MeasureQuality(request);

  ASSERT_TRUE(chunked.ok() && single.ok());
  EXPECT_GT(single->front().all.kld_max, 0);
  ExpectEqual(chunked->front().all, single->front().all);
}

TEST_F(TinyAnalysisTest, EveryCandidateIsMeasuredAsIfAlone) {
  QualityRequest request = Request(120, KvType::kF16);
  const auto alone = MeasureQuality(request);
  CacheOptions mixed = request.candidates[0];
  mixed.v_type = KvType::kF32;
  request.candidates.insert(request.candidates.begin(), mixed);

  const auto together = MeasureQuality(request);

  ASSERT_TRUE(alone.ok() && together.ok());
  ASSERT_THAT(*together, SizeIs(2));
  ExpectEqual(alone->front().all, together->back().all);
  EXPECT_NE(together->front().all.kld_mean.value, together->back().all.kld_mean.value);
}

TEST_F(TinyAnalysisTest, OneScaleForAWholeTensorIsWorseThanOneForEachHeadOfARow) {
  QualityRequest request = Request(200, KvType::kI8);
  request.engine.activations = ActivationMode::kF32;  // Nothing but what K and V lose.
  const auto alone = MeasureQuality(request);
  request.has_per_tensor_int8 = true;

  const auto both = MeasureQuality(request);

  ASSERT_TRUE(alone.ok() && both.ok());
  ASSERT_THAT(*both, SizeIs(2));
  EXPECT_FALSE(both->front().is_per_tensor_int8);
  EXPECT_TRUE(both->back().is_per_tensor_int8);
  ExpectEqual(both->front().all, alone->front().all);
  EXPECT_GT(both->front().all.kld_mean.value, 0);
  EXPECT_GT(both->back().all.kld_mean.value, 1.5 * both->front().all.kld_mean.value);
}

TEST_F(TinyAnalysisTest, TheRangesOfATensorAreThoseOfTheWholeText) {
  QualityRequest request = Request(200, KvType::kI8);
  request.candidates.clear();
  request.has_per_tensor_int8 = true;
  request.sequence_tokens = 20;
  request.num_scored = 20;
  const auto short_text = MeasureQuality(request);
  request.num_scored = 199;

  const auto long_text = MeasureQuality(request, [](uint64_t done, uint64_t) { return done < 20; });

  ASSERT_TRUE(short_text.ok() && long_text.ok());
  EXPECT_EQ(short_text->front().all.num_tokens, 20u);
  EXPECT_EQ(long_text->front().all.num_tokens, 20u);
  EXPECT_EQ(long_text->front().all.reference_nll.value, short_text->front().all.reference_nll.value);
  EXPECT_NE(long_text->front().all.kld_mean.value, short_text->front().all.kld_mean.value);
}

TEST_F(TinyAnalysisTest, BucketsCoverAllTokensAndEndWithTheSequence) {
  const auto reports = MeasureQuality(Request(250, KvType::kF16));

  ASSERT_TRUE(reports.ok());
  const QualityReport& report = reports->front();
  ASSERT_THAT(report.buckets, SizeIs(1));  // Sequences of 100 end before the first border.
  EXPECT_EQ(report.buckets[0].end, 100u);
  EXPECT_EQ(report.buckets[0].numbers.num_tokens, 249u);
  EXPECT_EQ(report.all.num_tokens, 249u);
}

TEST_F(TinyAnalysisTest, ProgressIsToldAndEndsItWithWhatIsDone) {
  QualityRequest request = Request(200, KvType::kF16);
  request.engine.prefill_chunk = 10;
  uint64_t last = 0;

  const auto reports = MeasureQuality(request, [&](uint64_t done, uint64_t total) {
    EXPECT_LE(done, total);
    last = done;
    return done < 50;
  });

  ASSERT_TRUE(reports.ok());
  EXPECT_EQ(last, 50u);
  EXPECT_EQ(reports->front().all.num_tokens, 50u);
}

TEST_F(TinyAnalysisTest, AQualityRequestThatMakesNoSenseIsRefused) {
  QualityRequest request = Request(10, KvType::kF16);
  request.num_scored = 10;
  EXPECT_THAT(MeasureQuality(request).status().message(), HasSubstr("10 tokens, expected 11 or more"));
  request = Request(10, KvType::kF16);
  request.sequence_tokens = 1000;
  EXPECT_THAT(MeasureQuality(request).status().message(), HasSubstr("context of 256"));
  request = Request(10, KvType::kF16);
  request.tokens[3] = 999;
  EXPECT_THAT(MeasureQuality(request).status().message(), HasSubstr("token 999"));
  request = Request(10, KvType::kF16);
  request.candidates.clear();
  EXPECT_THAT(MeasureQuality(request).status().message(), HasSubstr("candidates"));
}

TEST_F(TinyAnalysisTest, ADiagnosisHasEveryHeadOfEveryLayer) {
  const std::vector<TokenId> tokens = RandomTokens(200, spec_.vocab_size, 3);
  uint32_t layers = 0;

  const auto diagnosis = DiagnoseKv(Options(), tokens, [&](uint32_t done, uint32_t) {
    layers = done;
    return true;
  });

  ASSERT_TRUE(diagnosis.ok()) << diagnosis.status().ToString();
  EXPECT_EQ(layers, spec_.num_layers);
  EXPECT_EQ(diagnosis->num_tokens, 200u);
  EXPECT_FALSE(diagnosis->non_finite);
  ASSERT_THAT(diagnosis->heads, SizeIs(spec_.num_layers * spec_.num_kv_heads));
  for (const HeadDiagnosis& head : diagnosis->heads) {
    EXPECT_LT(head.k.min, head.k.max);
    EXPECT_GT(head.v.mean_norm, 0);
    EXPECT_THAT(head.k.channel_means, SizeIs(spec_.head_dim));
    EXPECT_GT(head.entropy, 0);
    EXPECT_LE(head.sink_share + head.recent_share, 1 + 1e-9);
  }
  EXPECT_EQ(diagnosis->Head(0, 0).k_cosine_layers, 0);
  EXPECT_NE(diagnosis->Head(1, 0).k_cosine_layers, 0);
  EXPECT_THAT(AdviceFor(*diagnosis), SizeIs(5));
}

TEST_F(TinyAnalysisTest, ADiagnosisIsTheSameForAnyNumberOfThreads) {
  const std::vector<TokenId> tokens = RandomTokens(64, spec_.vocab_size, 3);
  EngineOptions one = Options();
  one.num_threads = 1;

  const auto a = DiagnoseKv(Options(), tokens), b = DiagnoseKv(one, tokens);

  ASSERT_TRUE(a.ok() && b.ok());
  for (size_t i = 0; i < a->heads.size(); ++i) {
    EXPECT_EQ(a->heads[i].k.channel_means, b->heads[i].k.channel_means);
    EXPECT_EQ(a->heads[i].k_lag1, b->heads[i].k_lag1);
    EXPECT_EQ(a->heads[i].entropy, b->heads[i].entropy);
  }
}

TEST_F(TinyAnalysisTest, ADiagnosisCanBeCancelledAndRefusesTextsThatDoNotFit) {
  EXPECT_EQ(DiagnoseKv(Options(), RandomTokens(64, 272, 3), [](uint32_t done, uint32_t) { return done == 0; })
                .status()
                .code(),
            StatusCode::kCancelled);
  EXPECT_THAT(DiagnoseKv(Options(), RandomTokens(300, 272, 3)).status().message(), HasSubstr("2 to 256"));
  EXPECT_THAT(DiagnoseKv(Options(), {1}).status().message(), HasSubstr("1 tokens"));
}

TEST_F(TinyAnalysisTest, TheDigestIsThatOfTheContentWhateverTheName) {
  const std::string copy = directory_ + "/copy.gguf";
  std::filesystem::copy_file(path(), copy);

  const auto digest = ModelDigest(path());

  ASSERT_TRUE(digest.ok()) << digest.status().ToString();
  EXPECT_THAT(*digest, SizeIs(64));
  EXPECT_EQ(*ModelDigest(copy), *digest);
  EXPECT_NE(*FileStamp(copy), *FileStamp(path()));
}

TEST_F(TinyAnalysisTest, AnyByteOfATensorChangesTheDigest) {
  const std::string before = ModelDigest(path()).value();
  std::vector<uint8_t> bytes = TinyModelBytes(spec_);
  bytes[bytes.size() - 40] ^= 1;
  Write(path(), bytes);

  EXPECT_NE(ModelDigest(path()).value(), before);
}

TEST_F(TinyAnalysisTest, FilesThatAreNoModelHaveNoDigest) {
  Write(path(), {1, 2, 3, 4, 5, 6, 7, 8});

  EXPECT_EQ(ModelDigest(path()).status().code(), StatusCode::kCorruption);
  EXPECT_EQ(ModelDigest(directory_ + "/absent").status().code(), StatusCode::kNotFound);
  EXPECT_EQ(FileStamp(directory_ + "/absent").status().code(), StatusCode::kNotFound);
}

}  // namespace
}  // namespace kvern
