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

}  // namespace
}  // namespace kvern
