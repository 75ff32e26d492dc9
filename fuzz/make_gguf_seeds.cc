// make_gguf_seeds DIRECTORY: writes small valid files there, for gguf_fuzz to start from.
#include <cstdio>
#include <filesystem>
#include <string>
#include <vector>

#include "gguf/gguf_writer.h"
#include "platform/file_system.h"

namespace kvern {
namespace {

GgufWriter ModelLike() {
  GgufWriter writer;
  writer.Add("general.architecture", "llama");
  writer.Add("llama.block_count", uint32_t{1});
  writer.Add("llama.rope.freq_base", 1e4f);
  writer.AddArray("llama.attention.head_count", std::vector<uint32_t>{4, 4});
  writer.AddArray("tokenizer.ggml.tokens", std::vector<std::string>{"<s>", "a", "b"});
  writer.AddArray("tokenizer.ggml.scores", std::vector<float>{0.0f, -1.0f, -2.0f});
  writer.AddTensorFromValues("token_embd.weight", DType::kQ8_0, {32, 2}, std::vector<float>(64, 0.5f));
  writer.AddTensorFromValues("output_norm.weight", DType::kF32, {32}, std::vector<float>(32, 1.0f));
  return writer;
}

GgufWriter EveryValueType() {
  GgufWriter writer({.version = 2, .alignment = 8});
  writer.Add("u8", uint8_t{1});
  writer.Add("i8", int8_t{-1});
  writer.Add("u16", uint16_t{1});
  writer.Add("i16", int16_t{-1});
  writer.Add("u32", uint32_t{1});
  writer.Add("i32", int32_t{-1});
  writer.Add("f32", 1.0f);
  writer.Add("bool", true);
  writer.Add("string", "text");
  writer.Add("u64", uint64_t{1});
  writer.Add("i64", int64_t{-1});
  writer.Add("f64", 1.0);
  writer.AddArray("bools", std::vector<bool>{true, false});
  writer.AddArray("nested", std::vector<std::vector<uint8_t>>{{1}, {2, 3}});
  return writer;
}

GgufWriter OneTensor(const DTypeInfo& info) {
  GgufWriter writer;
  writer.AddTensorFromValues("w", info.dtype, {info.block_elements, 1, 2},
                             std::vector<float>(info.block_elements * 2, 0.25f));
  return writer;
}

Status WriteSeeds(const std::string& directory) {
  KVERN_RETURN_IF_ERROR(ModelLike().WriteTo(PosixFileSystem(), directory + "/model.gguf"));
  KVERN_RETURN_IF_ERROR(EveryValueType().WriteTo(PosixFileSystem(), directory + "/values.gguf"));
  for (const DTypeInfo& info : AllDTypes()) {
    const std::string path = directory + "/" + std::string(info.name) + ".gguf";
    KVERN_RETURN_IF_ERROR(OneTensor(info).WriteTo(PosixFileSystem(), path));
  }
  return Status::Ok();
}

}  // namespace
}  // namespace kvern

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: %s DIRECTORY\n", argv[0]);
    return 2;
  }
  std::error_code ignored;  // Where this fails, writing the first seed says why.
  std::filesystem::create_directories(argv[1], ignored);
  const kvern::Status status = kvern::WriteSeeds(argv[1]);
  if (!status.ok()) std::fprintf(stderr, "%s\n", status.ToString().c_str());
  return status.ok() ? 0 : 1;
}
