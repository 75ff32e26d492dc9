// The reader on a real file: what SmolLM2-135M-Instruct holds. Skipped where models/ does not have it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <string>

#include "gguf/gguf_file.h"
#include "platform/file_system.h"
#include "tensor/quant_formats.h"

namespace kvern {
namespace {

using ::testing::ElementsAre;
using ::testing::Pair;

constexpr char kModel[] = "models/SmolLM2-135M-Instruct.Q4_1.gguf";

class SmolLm2FileTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!std::filesystem::exists(kModel)) {
      GTEST_SKIP() << kModel << " is absent: fetch it with scripts/fetch_model.sh smollm2";
    }
  }
  static GgufFile Open() { return std::move(GgufFile::Open(PosixFileSystem(), kModel)).value(); }
};

TEST_F(SmolLm2FileTest, ItsMetadataSaysWhatItIs) {
  const GgufFile file = Open();

  EXPECT_EQ(file.version(), 3u);
  EXPECT_EQ(file.file_bytes(), 98362432u);
  EXPECT_EQ(*file.GetString("general.architecture"), "llama");
  EXPECT_EQ(*file.GetUint("llama.block_count"), 30u);
  EXPECT_EQ(*file.GetUint("llama.attention.head_count"), 9u);
  EXPECT_EQ(*file.GetUint("llama.attention.head_count_kv"), 3u);
  EXPECT_EQ(*file.GetUint("llama.context_length"), 8192u);
  EXPECT_EQ(*file.GetFloat("llama.rope.freq_base"), 1e5);
  EXPECT_EQ(*file.GetString("tokenizer.ggml.pre"), "smollm");
  EXPECT_EQ(file.GetStrings("tokenizer.ggml.tokens")->size(), 49152u);
  EXPECT_EQ(file.GetInts("tokenizer.ggml.token_type")->size(), 49152u);
}

TEST_F(SmolLm2FileTest, ItsTensorsAreOfThreeTypes) {
  const GgufFile file = Open();
  std::map<std::string, int> num_of_type;
  for (const GgufTensorInfo& info : file.tensors()) ++num_of_type[GgmlTypeName(info.ggml_type)];

  EXPECT_THAT(num_of_type, ElementsAre(Pair("F32", 61), Pair("Q4_1", 210), Pair("Q8_0", 1)));
  EXPECT_EQ(file.Tensor("token_embd.weight")->dtype, DType::kQ8_0);
  EXPECT_THAT(file.Tensor("token_embd.weight")->dims, ElementsAre(576, 49152, 1, 1));
  EXPECT_FALSE(file.HasTensor("output.weight"));  // Tied to the embedding.
}

TEST_F(SmolLm2FileTest, EveryScaleIsFinite) {
  const GgufFile file = Open();

  for (const GgufTensorInfo& info : file.tensors()) {
    const Result<TensorView> view = file.Tensor(info.name);
    ASSERT_TRUE(view.ok()) << view.status().ToString();
    EXPECT_TRUE(ScalesAreFinite(view->dtype, view->data)) << info.name;
  }
}

}  // namespace
}  // namespace kvern
