#include "bench/generator/random_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>

#include "gguf/gguf_file.h"
#include "kvern/engine.h"
#include "tensor/quant_formats.h"
#include "tests/support/mem_file_system.h"

namespace kvern {
namespace {

const ModelShape& Shape(std::string_view name) {
  return *std::find_if(ModelShapes().begin(), ModelShapes().end(),
                       [&](const ModelShape& shape) { return shape.name == name; });
}

std::map<std::string, DType> TypesOf(const ModelShape& shape, std::string_view mix) {
  std::map<std::string, DType> types;
  for (const RandomTensor& tensor : TensorsOf(shape, mix)) types[tensor.name] = tensor.dtype;
  return types;
}

uint64_t BytesOf(std::string_view shape, std::string_view mix) {
  uint64_t sum = 0;
  for (const RandomTensor& tensor : TensorsOf(Shape(shape), mix)) sum += tensor.num_bytes();
  return sum;
}

TEST(RandomModelTest, Q4KMGivesMoreBitsToTheLayersThatNeedThem) {
  const auto types = TypesOf(Shape("c"), "Q4_K_M");

  EXPECT_EQ(types.at("token_embd.weight"), DType::kQ4_K);
  EXPECT_EQ(types.at("output.weight"), DType::kQ6_K);
  EXPECT_EQ(types.at("output_norm.weight"), DType::kF32);
  for (const int layer : {0, 3, 6, 9, 24, 28, 31}) {
    EXPECT_EQ(types.at("blk." + std::to_string(layer) + ".attn_v.weight"), DType::kQ6_K) << layer;
    EXPECT_EQ(types.at("blk." + std::to_string(layer) + ".ffn_down.weight"), DType::kQ6_K) << layer;
  }
  for (const int layer : {4, 5, 7, 8, 26}) {
    EXPECT_EQ(types.at("blk." + std::to_string(layer) + ".ffn_down.weight"), DType::kQ4_K) << layer;
  }
}

TEST(RandomModelTest, RowsThatAreNoWholeSuperBlocksTakeTheTypesOfSmallBlocks) {
  const auto types = TypesOf(Shape("a"), "Q4_K_M");  // Width 576.

  EXPECT_EQ(types.at("token_embd.weight"), DType::kQ8_0);
  EXPECT_EQ(types.at("blk.0.attn_q.weight"), DType::kQ5_0);
  EXPECT_EQ(types.at("blk.0.attn_v.weight"), DType::kQ8_0);
  EXPECT_EQ(types.at("blk.0.ffn_down.weight"), DType::kQ6_K);
}

TEST(RandomModelTest, SizesAreThoseOfThePublishedFiles) {
  EXPECT_NEAR(static_cast<double>(BytesOf("b", "Q4_0")), 0.763e9, 0.003e9);
  EXPECT_NEAR(static_cast<double>(BytesOf("b", "F16")), 2.472e9, 0.003e9);
  EXPECT_NEAR(static_cast<double>(BytesOf("c", "Q4_K_M")), 4.91e9, 0.02e9);
}

TEST(RandomModelTest, WeightsHaveTheVarianceThatKeepsActivationsInSize) {
  MemFileSystem fs;
  ASSERT_TRUE(WriteRandomModel(fs, "m.gguf", Shape("tiny"), "Q4_K_M", 1, {}).ok());
  const GgufFile file = std::move(GgufFile::Open(fs, "m.gguf")).value();

  for (const RandomTensor& tensor : TensorsOf(Shape("tiny"), "Q4_K_M")) {
    if (tensor.num_outputs == 1) continue;
    std::vector<float> values(size_t{tensor.num_inputs} * tensor.num_outputs);
    DecodeRow(tensor.dtype, file.Tensor(tensor.name)->data, values);
    double sum = 0, squares = 0;
    for (const float value : values) sum += value, squares += double{value} * value;
    const double mean = sum / static_cast<double>(values.size());
    const double deviation = std::sqrt(squares / static_cast<double>(values.size()) * tensor.num_inputs);

    EXPECT_NEAR(deviation, 1.0, 0.05) << tensor.name;
    EXPECT_NEAR(mean * std::sqrt(tensor.num_inputs), 0.0, 0.05) << tensor.name;
  }
}

TEST(RandomModelTest, TheSeedDecidesTheBytes) {
  MemFileSystem fs;
  ASSERT_TRUE(WriteRandomModel(fs, "one", Shape("tiny"), "Q4_0", 1, {}).ok());
  ASSERT_TRUE(WriteRandomModel(fs, "again", Shape("tiny"), "Q4_0", 1, {}).ok());
  ASSERT_TRUE(WriteRandomModel(fs, "two", Shape("tiny"), "Q4_0", 2, {}).ok());

  EXPECT_EQ(fs.Contents("one"), fs.Contents("again"));
  EXPECT_NE(fs.Contents("one"), fs.Contents("two"));
}

TEST(RandomModelTest, ProgressEndsTheWriting) {
  MemFileSystem fs;
  const Status status =
      WriteRandomModel(fs, "m.gguf", Shape("tiny"), "Q8_0", 1, [](uint64_t, uint64_t) { return false; });

  EXPECT_EQ(status.code(), StatusCode::kCancelled);
}

// What an engine makes of a generated file of each mix.
class GeneratedFileTest : public testing::TestWithParam<std::string_view> {
 protected:
  void SetUp() override {
    std::string pattern = testing::TempDir() + "kvern-generated-XXXXXX";
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    directory_ = pattern;
  }
  void TearDown() override { std::filesystem::remove_all(directory_); }

  std::string directory_;
};

TEST_P(GeneratedFileTest, OpensAndGeneratesText) {
  EngineOptions options;
  options.model_path = directory_ + "/m.gguf";
  ASSERT_TRUE(WriteRandomModel(PosixFileSystem(), options.model_path, Shape("tiny"), GetParam(), 1, {}).ok());
  const auto engine = Engine::Open(options);
  ASSERT_TRUE(engine.ok()) << engine.status().ToString();

  Request request;
  request.prompt = (*engine)->tokenizer().Encode("grinding the grain").value();
  request.max_tokens = 8;
  request.ends_at_eos = false;
  auto stream = (*engine)->Submit(request);
  ASSERT_TRUE(stream.ok()) << stream.status().ToString();
  uint32_t num_tokens = 0;
  while (auto event = stream->Next()) num_tokens += event->token >= 0 ? 1 : 0;

  EXPECT_TRUE(stream->status().ok()) << stream->status().ToString();
  EXPECT_EQ(num_tokens, 8u);
  EXPECT_LT(request.prompt.size(), 18u);  // The merges are in use.
}

INSTANTIATE_TEST_SUITE_P(Mixes, GeneratedFileTest, testing::ValuesIn(TypeMixes().begin(), TypeMixes().end()),
                         [](const auto& test) { return std::string(test.param); });

}  // namespace
}  // namespace kvern
