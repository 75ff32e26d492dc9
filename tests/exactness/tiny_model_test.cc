// Loading models that are damaged, foreign or of unknown kind: one clear message each.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <limits>

#include "kernels/dispatch.h"
#include "tests/support/mem_file_system.h"
#include "tests/support/tiny_model.h"

namespace kvern {
namespace {

using testing::HasSubstr;

Status LoadBytes(std::vector<uint8_t> bytes) {
  MemFileSystem files;
  files.Put("m.gguf", std::move(bytes));
  auto file = GgufFile::Open(files, "m.gguf");
  if (!file.ok()) return file.status();
  ThreadPool pool(1);
  auto model = LoadModel(*file, {.kernels = RunnableTargets().back(), .pool = &pool, .allocator = &HeapAllocator()});
  return model.status();
}

// The bytes of a tiny model with `from` replaced by `to` (of the same length) wherever it stands.
std::vector<uint8_t> Replaced(const std::string& from, const std::string& to, const TinyModelSpec& spec = {}) {
  std::vector<uint8_t> bytes = TinyModelBytes(spec);
  for (size_t i = 0; i + from.size() <= bytes.size(); ++i) {
    if (std::memcmp(&bytes[i], from.data(), from.size()) == 0) std::memcpy(&bytes[i], to.data(), to.size());
  }
  return bytes;
}

TEST(LoadModelTest, AnIntactTinyModelLoads) { EXPECT_TRUE(LoadBytes(TinyModelBytes({})).ok()); }

TEST(LoadModelTest, AnUnknownArchitectureListsTheKnownOnes) {
  const Status status = LoadBytes(Replaced("llama", "mamba"));
  EXPECT_EQ(status.code(), StatusCode::kUnsupported);
  EXPECT_THAT(status.message(), AllOf(HasSubstr("m.gguf"), HasSubstr("mamba"), HasSubstr("kvern runs: llama")));
}

TEST(LoadModelTest, AMissingTensorIsNamed) {
  const Status status = LoadBytes(Replaced("blk.1.ffn_up.weight", "blk.1.ffn_UP.weight"));
  EXPECT_EQ(status.code(), StatusCode::kCorruption);
  EXPECT_THAT(status.message(), HasSubstr("blk.1.ffn_up.weight is missing"));
}

TEST(LoadModelTest, ATensorThatTheArchitectureDoesNotKnowIsRefused) {
  // The file has no own output head: a bias in its place must not be dropped silently.
  const Status status = LoadBytes(TinyModelBytes({.has_output = true}));
  EXPECT_TRUE(status.ok());
  std::vector<uint8_t> bytes = TinyModelBytes({.has_output = true});
  const std::string from = "output.weight";
  // Renames the head (not output_norm.weight or attn_output.weight: those are preceded by other letters).
  for (size_t i = 8; i + from.size() <= bytes.size(); ++i) {
    if (bytes[i - 1] == 0 && std::memcmp(&bytes[i], from.data(), from.size()) == 0) bytes[i] = 'X';
  }
  const Status renamed = LoadBytes(bytes);
  EXPECT_EQ(renamed.code(), StatusCode::kUnsupported);
  EXPECT_THAT(renamed.message(), HasSubstr("Xutput.weight"));
}

TEST(LoadModelTest, AMisshapenTensorSaysFoundAndExpected) {
  const Status status = LoadBytes(Replaced("llama.feed_forward_length", "llama.feed_forward_lengXX"));
  EXPECT_FALSE(status.ok());
  EXPECT_THAT(status.message(), HasSubstr("llama.feed_forward_length"));
}

TEST(LoadModelTest, WeightsThatAreNotFiniteNameTensorAndRow) {
  const TinyModelSpec spec = {};
  std::vector<uint8_t> bytes = TinyModelBytes(spec);
  const GgufFile file = OpenTinyModel(spec);
  const GgufTensorInfo* info = file.FindTensor("blk.0.attn_k.weight");
  ASSERT_NE(info, nullptr);
  const size_t row_bytes = RowBytes(spec.dtype, spec.width);
  bytes[info->data_offset + 3 * row_bytes + 1] = 0x7e;  // High byte of the f16 scale of row 3: NaN.
  bytes[info->data_offset + 3 * row_bytes] = 0x01;

  const Status status = LoadBytes(bytes);

  EXPECT_EQ(status.code(), StatusCode::kCorruption);
  EXPECT_THAT(status.message(), AllOf(HasSubstr("blk.0.attn_k.weight"), HasSubstr("row 3")));
}

TEST(LoadModelTest, AGemma3FileThatLacksANormNamesIt) {
  const TinyModelSpec spec = {.architecture = "gemma3"};
  EXPECT_TRUE(LoadBytes(TinyModelBytes(spec)).ok());
  for (const std::string name : {"attn_q_norm", "attn_k_norm", "post_attention_norm", "post_ffw_norm"}) {
    std::string other = name;
    other[0] = 'X';
    const Status status = LoadBytes(Replaced("blk.1." + name, "blk.1." + other, spec));

    EXPECT_EQ(status.code(), StatusCode::kCorruption);
    EXPECT_THAT(status.message(), HasSubstr("blk.1." + name + ".weight is missing"));
  }
}

TEST(LoadModelTest, AGemma3FileWithAHeadOfItsOwnIsRefused) {
  const Status status = LoadBytes(TinyModelBytes({.architecture = "gemma3", .has_output = true}));

  EXPECT_EQ(status.code(), StatusCode::kUnsupported);
  EXPECT_THAT(status.message(), HasSubstr("output.weight"));
}

TEST(LoadModelTest, NormsThatAreNotFiniteAreRefused) {
  std::vector<uint8_t> bytes = TinyModelBytes({});
  const GgufFile file = OpenTinyModel({});
  const GgufTensorInfo* info = file.FindTensor("output_norm.weight");
  const float nan = std::numeric_limits<float>::quiet_NaN();
  std::memcpy(&bytes[info->data_offset + 8], &nan, sizeof(nan));

  const Status status = LoadBytes(bytes);

  EXPECT_EQ(status.code(), StatusCode::kCorruption);
  EXPECT_THAT(status.message(), AllOf(HasSubstr("output_norm.weight"), HasSubstr("at 2")));
}

TEST(LoadModelTest, EveryTruncationIsAnErrorAndNoCrash) {
  for (const char* architecture : {"llama", "gemma3"}) {
    const std::vector<uint8_t> bytes = TinyModelBytes({.architecture = architecture,
                                                       .num_layers = 1,
                                                       .width = 32,
                                                       .ffn_width = 32,
                                                       .num_heads = 1,
                                                       .num_kv_heads = 1,
                                                       .vocab_size = 16});
    for (size_t size = 0; size < bytes.size(); size += size < 4096 ? 1 : 61) {
      EXPECT_FALSE(LoadBytes({bytes.begin(), bytes.begin() + static_cast<ptrdiff_t>(size)}).ok()) << size;
    }
  }
}

}  // namespace
}  // namespace kvern
