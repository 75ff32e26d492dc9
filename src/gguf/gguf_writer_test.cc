#include "gguf/gguf_writer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "gguf/gguf_file.h"
#include "tests/support/mem_file_system.h"

namespace kvern {
namespace {

TEST(GgufWriterTest, WritesTheBytesThatTheFormatPrescribes) {
  GgufWriter writer;
  writer.Add("k", uint16_t{0x0102});
  const uint64_t dims[] = {2};
  writer.AddRawTensor("t", 0, dims, std::vector<uint8_t>{1, 2, 3, 4, 5, 6, 7, 8});

  const std::vector<uint8_t> file = writer.Build();

  const std::vector<uint8_t> head = {'G', 'G', 'U', 'F', 3, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0,
                                     // Key, type u16, value.
                                     1, 0, 0, 0, 0, 0, 0, 0, 'k', 2, 0, 0, 0, 0x02, 0x01,
                                     // Name, one dimension of 2, type F32, offset 0.
                                     1, 0, 0, 0, 0, 0, 0, 0, 't', 1, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
                                     0, 0, 0, 0, 0, 0};
  ASSERT_EQ(file.size(), 96u + 32u);
  EXPECT_EQ(std::vector<uint8_t>(file.begin(), file.begin() + static_cast<std::ptrdiff_t>(head.size())), head);
  EXPECT_EQ(file[96], 1);
  EXPECT_EQ(file[103], 8);
}

TEST(GgufWriterTest, AWrittenFileOpens) {
  MemFileSystem fs;
  GgufWriter writer;
  writer.Add("general.architecture", "llama");

  ASSERT_TRUE(writer.WriteTo(fs, "m.gguf").ok());

  EXPECT_EQ(*GgufFile::Open(fs, "m.gguf")->GetString("general.architecture"), "llama");
}

TEST(GgufWriterTest, FailuresOfTheFileSystemAreReported) {
  MemFileSystem fs;
  for (uint64_t call = 0; call < 3; ++call) {
    FaultFileSystem faulty(fs, call);  // Create, Append, Close.

    EXPECT_EQ(GgufWriter().WriteTo(faulty, "m.gguf").code(), StatusCode::kIoError);
  }
}

TEST(GgufWriterTest, EveryTensorTypeIsWrittenAndFoundAgain) {
  GgufWriter writer;
  for (const DTypeInfo& info : AllDTypes()) {
    writer.AddTensorFromValues(info.name, info.dtype, {256, 2}, std::vector<float>(512, 0.5f));
  }
  MemFileSystem fs;
  ASSERT_TRUE(writer.WriteTo(fs, "m.gguf").ok());
  const GgufFile file = std::move(GgufFile::Open(fs, "m.gguf")).value();

  for (const DTypeInfo& info : AllDTypes()) {
    const Result<TensorView> view = file.Tensor(info.name);

    ASSERT_TRUE(view.ok()) << view.status().ToString();
    EXPECT_EQ(view->dtype, info.dtype);
    EXPECT_EQ(view->data.size(), RowBytes(info.dtype, 512));
  }
}

// Bytes 0 to 250 over and over, across parts.
TensorSource Counting(uint32_t& num_parts) {
  return [&num_parts, next = uint32_t{0}](std::span<uint8_t> part) mutable {
    ++num_parts;
    for (uint8_t& byte : part) byte = static_cast<uint8_t>(next++ % 251);
    return Status::Ok();
  };
}

TEST(GgufWriterTest, AStreamedTensorIsWrittenPartByPartBetweenTheOthers) {
  constexpr uint64_t kBlocks = 500'000;  // 18 bytes each: three parts.
  const uint64_t dims[] = {kBlocks * 32};
  uint32_t num_parts = 0;
  GgufWriter writer;
  writer.AddTensorFromValues("before", DType::kF32, {3}, std::vector<float>{1, 2, 3});
  writer.AddStreamedTensor("streamed", DType::kQ4_0, dims, Counting(num_parts));
  writer.AddTensorFromValues("after", DType::kF32, {3}, std::vector<float>{4, 5, 6});
  MemFileSystem fs;

  ASSERT_TRUE(writer.WriteTo(fs, "m.gguf").ok());

  const GgufFile file = std::move(GgufFile::Open(fs, "m.gguf")).value();
  const TensorView streamed = file.Tensor("streamed").value();
  ASSERT_EQ(streamed.data.size(), kBlocks * 18);
  EXPECT_EQ(num_parts, 3u);
  uint64_t num_wrong = 0;
  for (uint64_t i = 0; i < streamed.data.size(); ++i) num_wrong += streamed.data[i] != i % 251 ? 1 : 0;
  EXPECT_EQ(num_wrong, 0u);
  EXPECT_EQ(LoadLittleEndian<float>(file.Tensor("before")->data.data()), 1.0f);
  EXPECT_EQ(LoadLittleEndian<float>(file.Tensor("after")->data.data()), 4.0f);
}

TEST(GgufWriterTest, AnErrorOfASourceEndsTheWriting) {
  const uint64_t dims[] = {32};
  GgufWriter writer;
  writer.AddStreamedTensor("t", DType::kQ8_0, dims, [](std::span<uint8_t>) { return Status::Cancelled("enough"); });
  MemFileSystem fs;

  EXPECT_EQ(writer.WriteTo(fs, "m.gguf").code(), StatusCode::kCancelled);
}

}  // namespace
}  // namespace kvern
