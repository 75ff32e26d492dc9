#include "engine/model_description.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "gguf/gguf_writer.h"
#include "tests/support/mem_file_system.h"

namespace kvern {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Pair;
using ::testing::SizeIs;

GgufFile OpenWritten(const GgufWriter& writer) {
  MemFileSystem fs;
  fs.Put("dir/model.gguf", writer.Build());
  return GgufFile::Open(fs, "dir/model.gguf").value();
}

GgufWriter LlamaWriter() {
  GgufWriter writer;
  writer.Add("general.architecture", std::string("llama"));
  writer.Add("general.name", std::string("Tiny"));
  writer.Add("llama.block_count", uint32_t{2});
  writer.Add("llama.context_length", uint32_t{128});
  writer.Add("llama.embedding_length", uint32_t{64});
  writer.Add("llama.feed_forward_length", uint32_t{96});
  writer.Add("llama.attention.head_count", uint32_t{4});
  writer.Add("llama.attention.head_count_kv", uint32_t{2});
  writer.Add("llama.attention.layer_norm_rms_epsilon", 1e-5f);
  writer.Add("llama.vocab_size", uint32_t{10});
  writer.AddTensorFromValues("token_embd.weight", DType::kF32, {64, 10}, std::vector<float>(640));
  return writer;
}

TEST(ModelDescriptionTest, ShapeTypesAndMetadataAreThoseOfTheFile) {
  GgufWriter writer = LlamaWriter();
  writer.AddTensorFromValues("output_norm.weight", DType::kF32, {64}, std::vector<float>(64));
  writer.AddTensorFromValues("blk.0.attn_q.weight", DType::kF16, {64, 64}, std::vector<float>(64 * 64));
  writer.Add("note", std::string(1000, 'x'));

  const ModelInfo info = DescribeModel(OpenWritten(writer));

  EXPECT_TRUE(info.is_supported) << info.unsupported_reason;
  EXPECT_EQ(info.path, "dir/model.gguf");
  EXPECT_EQ(info.file_bytes, writer.Build().size());
  EXPECT_EQ(info.architecture, "llama");
  EXPECT_EQ(info.name, "Tiny");
  EXPECT_EQ(info.num_layers, 2u);
  EXPECT_EQ(info.width, 64u);
  EXPECT_EQ(info.num_kv_heads, 2u);
  EXPECT_EQ(info.head_dim, 16u);
  EXPECT_EQ(info.vocab_size, 10u);
  EXPECT_EQ(info.context_tokens, 128u);
  EXPECT_EQ(info.num_parameters, 640u + 64 + 4096);
  EXPECT_EQ(info.KvBytesPerToken(KvType::kF16, KvType::kF32), 2u * 2 * 16 * (2 + 4));
  ASSERT_THAT(info.tensor_types, SizeIs(2));
  EXPECT_EQ(info.tensor_types[0].type, "F32");
  EXPECT_EQ(info.tensor_types[0].num_tensors, 2u);
  EXPECT_EQ(info.tensor_types[0].num_bytes, 704u * 4);
  EXPECT_EQ(info.tensor_types[1].type, "F16");
  EXPECT_THAT(info.metadata, Contains(Pair("llama.block_count", "2")));
  EXPECT_EQ(info.metadata.back().first, "note");
  EXPECT_LT(info.metadata.back().second.size(), 250u);
}

TEST(ModelDescriptionTest, AnUnknownArchitectureIsDescribedWithTheReason) {
  GgufWriter writer;
  writer.Add("general.architecture", std::string("mamba"));

  const ModelInfo info = DescribeModel(OpenWritten(writer));

  EXPECT_FALSE(info.is_supported);
  EXPECT_EQ(info.architecture, "mamba");
  EXPECT_THAT(info.unsupported_reason, HasSubstr("mamba"));
}

TEST(ModelDescriptionTest, AnUnknownTensorTypeIsNamed) {
  GgufWriter writer = LlamaWriter();
  const std::vector<uint64_t> dims = {256, 1};
  writer.AddRawTensor("blk.1.ffn_up.weight", /*ggml_type=*/16, dims, std::vector<uint8_t>(66));  // IQ2_XXS

  const ModelInfo info = DescribeModel(OpenWritten(writer));

  EXPECT_FALSE(info.is_supported);
  EXPECT_THAT(info.unsupported_reason, HasSubstr("blk.1.ffn_up.weight"));
  EXPECT_THAT(info.unsupported_reason, HasSubstr("IQ2_XXS"));
  EXPECT_THAT(info.unsupported_reason, HasSubstr("Q4_K"));
  EXPECT_EQ(info.num_layers, 2u);
  EXPECT_FALSE(info.tensor_types[1].is_supported);
}

}  // namespace
}  // namespace kvern
