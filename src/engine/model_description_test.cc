#include "engine/model_description.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "gguf/gguf_writer.h"
#include "tests/support/mem_file_system.h"

namespace kvern {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
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

TEST(ModelDescriptionTest, ChatTemplatesAreWholeAndByName) {
  GgufWriter writer = LlamaWriter();
  writer.Add("tokenizer.chat_template", std::string(1000, 'x'));
  writer.Add("tokenizer.chat_template.tool_use", std::string("{{ tools }}"));
  writer.Add("tokenizer.chat_templates", std::string("tool_use"));

  const ModelInfo info = DescribeModel(OpenWritten(writer));

  EXPECT_EQ(info.chat_template, std::string(1000, 'x'));
  EXPECT_THAT(info.more_chat_templates, ElementsAre(Pair("tool_use", "{{ tools }}")));
}

GgufWriter Gemma3Writer(uint32_t num_layers) {
  GgufWriter writer;
  writer.Add("general.architecture", std::string("gemma3"));
  writer.Add("gemma3.block_count", num_layers);
  writer.Add("gemma3.context_length", uint32_t{32768});
  writer.Add("gemma3.embedding_length", uint32_t{64});
  writer.Add("gemma3.feed_forward_length", uint32_t{96});
  writer.Add("gemma3.attention.head_count", uint32_t{4});
  writer.Add("gemma3.attention.head_count_kv", uint32_t{1});
  writer.Add("gemma3.attention.key_length", uint32_t{256});
  writer.Add("gemma3.attention.value_length", uint32_t{256});
  writer.Add("gemma3.attention.layer_norm_rms_epsilon", 1e-6f);
  writer.Add("gemma3.attention.sliding_window", uint32_t{512});
  writer.Add("gemma3.rope.freq_base", 1e6f);
  writer.AddTensorFromValues("token_embd.weight", DType::kF32, {64, 10}, std::vector<float>(640));
  return writer;
}

TEST(ModelDescriptionTest, LayersWithAWindowAreAGroupOfTheirOwnAndHoldNoMoreThanIt) {
  const ModelInfo info = DescribeModel(OpenWritten(Gemma3Writer(18)));

  ASSERT_TRUE(info.is_supported) << info.unsupported_reason;
  ASSERT_THAT(info.layer_groups, SizeIs(2));
  EXPECT_EQ(info.layer_groups[0].num_layers, 3u);  // Layers 5, 11 and 17.
  EXPECT_EQ(info.layer_groups[0].window_tokens, 0u);
  EXPECT_EQ(info.layer_groups[0].rope_base, 1e6);
  EXPECT_EQ(info.layer_groups[1].num_layers, 15u);
  EXPECT_EQ(info.layer_groups[1].window_tokens, 512u);
  EXPECT_EQ(info.layer_groups[1].rope_base, 1e4);
  const uint64_t per_layer = 256 * (2 + 2);
  EXPECT_EQ(info.KvBytesPerToken(KvType::kF16, KvType::kF16), 18 * per_layer);
  EXPECT_EQ(info.KvBytesOfSequence(500, 64, KvType::kF16, KvType::kF16), 18 * 512 * per_layer);
  EXPECT_EQ(info.KvBytesOfSequence(32768, 64, KvType::kF16, KvType::kF16), (3 * 32768 + 15 * (512 + 64)) * per_layer);
}

TEST(ModelDescriptionTest, AModelWhoseLayersAllHaveAWindowHasOneGroup) {
  const ModelInfo info = DescribeModel(OpenWritten(Gemma3Writer(5)));

  ASSERT_THAT(info.layer_groups, SizeIs(1));
  EXPECT_EQ(info.layer_groups[0].num_layers, 5u);
  EXPECT_EQ(info.layer_groups[0].window_tokens, 512u);
  EXPECT_EQ(info.rope_base, 1e4);
}

TEST(ModelDescriptionTest, SoftCapsAndAMissingWindowAreNamed) {
  GgufWriter capped = Gemma3Writer(6);
  capped.Add("gemma3.final_logit_softcapping", 30.0f);
  EXPECT_THAT(DescribeModel(OpenWritten(capped)).unsupported_reason, HasSubstr("gemma3.final_logit_softcapping is 30"));

  GgufWriter gemma;
  gemma.Add("general.architecture", std::string("gemma3"));
  for (const char* key : {"block_count", "context_length", "embedding_length", "feed_forward_length"}) {
    gemma.Add(std::string("gemma3.") + key, uint32_t{64});
  }
  gemma.Add("gemma3.attention.head_count", uint32_t{4});
  gemma.Add("gemma3.attention.layer_norm_rms_epsilon", 1e-6f);
  gemma.AddTensorFromValues("token_embd.weight", DType::kF32, {64, 10}, std::vector<float>(640));
  EXPECT_THAT(DescribeModel(OpenWritten(gemma)).unsupported_reason, HasSubstr("gemma3.attention.sliding_window"));
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
