#include "gguf/gguf_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "base/byte_reader.h"
#include "gguf/gguf_writer.h"
#include "tensor/quant_formats.h"
#include "tests/support/mem_file_system.h"

namespace kvern {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr char kPath[] = "models/m.gguf";

Result<GgufFile> OpenBytes(std::vector<uint8_t> bytes) {
  MemFileSystem fs;
  fs.Put(kPath, std::move(bytes));
  return GgufFile::Open(fs, kPath);
}

GgufFile OpenGood(const GgufWriter& writer) {
  Result<GgufFile> file = OpenBytes(writer.Build());
  EXPECT_TRUE(file.ok()) << file.status().ToString();
  return std::move(file).value();
}

Status OpenBad(std::vector<uint8_t> bytes) { return OpenBytes(std::move(bytes)).status(); }

// Metadata of several kinds and three tensors, the last one filling its alignment.
GgufWriter SmallModel() {
  GgufWriter writer;
  writer.Add("general.architecture", "llama");
  writer.Add("llama.block_count", uint32_t{2});
  writer.Add("llama.rope.freq_base", 1e5f);
  writer.Add("tokenizer.ggml.add_bos_token", true);
  writer.AddArray("tokenizer.ggml.tokens", std::vector<std::string>{"a", "", "b\xff"});
  writer.AddArray("tokenizer.ggml.scores", std::vector<float>{-1.0f, 0.5f, 2.0f});
  writer.AddArray("nested", std::vector<std::vector<int16_t>>{{1, 2}, {}, {3}});
  writer.AddTensorFromValues("norm", DType::kF32, {8}, std::vector<float>(8, 1.0f));
  writer.AddTensorFromValues("w", DType::kQ4_1, {32, 3}, std::vector<float>(96, 0.25f));
  writer.AddTensorFromValues("v", DType::kF16, {16, 1, 2}, std::vector<float>(32, 3.0f));
  return writer;
}

TEST(GgufFileTest, EveryScalarTypeSurvivesARoundTrip) {
  GgufWriter writer;
  writer.Add("u8", std::numeric_limits<uint8_t>::max());
  writer.Add("i8", std::numeric_limits<int8_t>::min());
  writer.Add("u16", std::numeric_limits<uint16_t>::max());
  writer.Add("i16", std::numeric_limits<int16_t>::min());
  writer.Add("u32", std::numeric_limits<uint32_t>::max());
  writer.Add("i32", std::numeric_limits<int32_t>::min());
  writer.Add("f32", 0.1f);
  writer.Add("yes", true);
  writer.Add("no", false);
  writer.Add("string", "h\xc3\xa9llo");
  writer.Add("u64", std::numeric_limits<uint64_t>::max());
  writer.Add("i64", std::numeric_limits<int64_t>::min());
  writer.Add("f64", 0.1);

  const GgufFile file = OpenGood(writer);

  EXPECT_EQ(file.Find("u8")->AsUint(), 255u);
  EXPECT_EQ(file.Find("i8")->AsInt(), -128);
  EXPECT_EQ(file.Find("u16")->AsUint(), 65535u);
  EXPECT_EQ(file.Find("i16")->AsInt(), -32768);
  EXPECT_EQ(file.Find("u32")->AsUint(), 4294967295u);
  EXPECT_EQ(file.Find("i32")->AsInt(), std::numeric_limits<int32_t>::min());
  EXPECT_EQ(file.Find("f32")->AsFloat(), 0.1f);
  EXPECT_EQ(file.Find("yes")->AsBool(), true);
  EXPECT_EQ(file.Find("no")->AsBool(), false);
  EXPECT_EQ(file.Find("string")->AsString(), "h\xc3\xa9llo");
  EXPECT_EQ(file.Find("u64")->AsUint(), std::numeric_limits<uint64_t>::max());
  EXPECT_EQ(file.Find("u64")->AsInt(), std::nullopt);
  EXPECT_EQ(file.Find("i64")->AsInt(), std::numeric_limits<int64_t>::min());
  EXPECT_EQ(file.Find("i64")->AsUint(), std::nullopt);
  EXPECT_EQ(file.Find("f64")->AsFloat(), 0.1);
}

template <typename T>
void ExpectArrayRoundTrip(GgufType type, const std::vector<T>& elements) {
  GgufWriter writer;
  writer.AddArray("a", elements);

  const GgufFile file = OpenGood(writer);

  const GgufValue& value = *file.Find("a");
  ASSERT_TRUE(value.is_array());
  EXPECT_EQ(value.element_type(), type);
  ASSERT_EQ(value.size(), elements.size());
  for (size_t i = 0; i < elements.size(); ++i) {
    EXPECT_EQ(value.At(i).type(), type);
    EXPECT_EQ(value.At(i).ToString(), GgufValue(value.At(i)).ToString());
    if constexpr (std::is_same_v<T, bool>) {
      EXPECT_EQ(value.At(i).AsBool(), elements[i]);
    } else if constexpr (std::is_signed_v<T> && std::is_integral_v<T>) {
      EXPECT_EQ(value.At(i).AsInt(), elements[i]);
    } else if constexpr (std::is_integral_v<T>) {
      EXPECT_EQ(value.At(i).AsUint(), elements[i]);
    } else {
      EXPECT_EQ(value.At(i).AsFloat(), elements[i]);
    }
  }
}

TEST(GgufFileTest, ArraysOfEveryScalarTypeSurviveARoundTrip) {
  ExpectArrayRoundTrip<uint8_t>(GgufType::kU8, {0, 255});
  ExpectArrayRoundTrip<int8_t>(GgufType::kI8, {-128, 127});
  ExpectArrayRoundTrip<uint16_t>(GgufType::kU16, {0, 65535});
  ExpectArrayRoundTrip<int16_t>(GgufType::kI16, {-32768, 32767});
  ExpectArrayRoundTrip<uint32_t>(GgufType::kU32, {1, 4294967295u});
  ExpectArrayRoundTrip<int32_t>(GgufType::kI32, {-1, 2});
  ExpectArrayRoundTrip<uint64_t>(GgufType::kU64, {1, std::numeric_limits<uint64_t>::max()});
  ExpectArrayRoundTrip<int64_t>(GgufType::kI64, {std::numeric_limits<int64_t>::min(), 2});
  ExpectArrayRoundTrip<float>(GgufType::kF32, {0.5f, -2.0f});
  ExpectArrayRoundTrip<double>(GgufType::kF64, {0.1, -2e300});
  ExpectArrayRoundTrip<bool>(GgufType::kBool, {true, false, true});
  ExpectArrayRoundTrip<float>(GgufType::kF32, {});
}

TEST(GgufFileTest, StringsAndNestedArraysSurviveARoundTrip) {
  const GgufFile file = OpenGood(SmallModel());

  EXPECT_THAT(file.Find("tokenizer.ggml.tokens")->strings(), ElementsAre("a", "", "b\xff"));
  const GgufValue& nested = *file.Find("nested");
  ASSERT_EQ(nested.size(), 3u);
  EXPECT_EQ(nested.arrays()[0].At(1).AsInt(), 2);
  EXPECT_EQ(nested.arrays()[1].size(), 0u);
  EXPECT_EQ(nested.At(2).At(0).AsInt(), 3);
}

TEST(GgufFileTest, MetadataAndTensorsKeepTheOrderOfTheFile) {
  const GgufFile file = OpenGood(SmallModel());

  ASSERT_EQ(file.metadata().size(), 7u);
  EXPECT_EQ(file.metadata()[0].key, "general.architecture");
  EXPECT_EQ(file.metadata()[6].key, "nested");
  ASSERT_EQ(file.tensors().size(), 3u);
  EXPECT_EQ(file.tensors()[0].name, "norm");
  EXPECT_EQ(file.tensors()[1].name, "w");
  EXPECT_EQ(file.tensors()[2].name, "v");
}

TEST(GgufFileTest, TensorsAreViewsOfTheirShapeTypeAndBytes) {
  const GgufFile file = OpenGood(SmallModel());

  const Result<TensorView> w = file.Tensor("w");
  const Result<TensorView> v = file.Tensor("v");

  ASSERT_TRUE(w.ok() && v.ok());
  EXPECT_EQ(w->name, "w");
  EXPECT_EQ(w->dtype, DType::kQ4_1);
  EXPECT_EQ(w->num_dims, 2u);
  EXPECT_THAT(w->dims, ElementsAre(32, 3, 1, 1));
  EXPECT_EQ(w->data.size(), 60u);
  std::vector<float> row(32);
  DecodeRow(w->dtype, w->row(2), row);
  EXPECT_EQ(row[31], 0.25f);
  EXPECT_THAT(v->dims, ElementsAre(16, 1, 2, 1));
  EXPECT_EQ(v->num_rows(), 2u);
}

TEST(GgufFileTest, MovingTheFileKeepsItsViews) {
  GgufFile file = OpenGood(SmallModel());
  const TensorView norm = std::move(file.Tensor("norm")).value();
  const uint8_t* bytes = norm.data.data();

  const GgufFile moved = std::move(file);

  EXPECT_EQ(moved.Tensor("norm")->data.data(), bytes);
  EXPECT_EQ(*moved.GetString("general.architecture"), "llama");
}

TEST(GgufFileTest, ReadsVersion2) {
  GgufWriter writer({.version = 2});
  writer.Add("k", uint8_t{1});

  EXPECT_EQ(OpenGood(writer).version(), 2u);
}

TEST(GgufFileTest, AlignmentComesFromTheMetadata) {
  GgufWriter writer({.alignment = 256});
  writer.AddTensorFromValues("a", DType::kF32, {1}, std::vector<float>{1.0f});
  writer.AddTensorFromValues("b", DType::kF32, {1}, std::vector<float>{2.0f});

  const GgufFile file = OpenGood(writer);

  EXPECT_EQ(file.alignment(), 256u);
  EXPECT_EQ(file.tensors()[1].data_offset % 256, 0u);
  EXPECT_EQ(LoadLittleEndian<float>(file.Tensor("b")->data.data()), 2.0f);
}

TEST(GgufFileTest, AFileMayHoldNothing) {
  const GgufFile file = OpenGood(GgufWriter());

  EXPECT_TRUE(file.metadata().empty());
  EXPECT_TRUE(file.tensors().empty());
}

TEST(GgufFileTest, ATensorWithoutDimensionsIsOneValue) {
  GgufWriter writer;
  writer.AddRawTensor("scalar", 0, {}, std::vector<uint8_t>(4));

  EXPECT_EQ(OpenGood(writer).Tensor("scalar")->data.size(), 4u);
}

// --- Typed access ---

GgufFile FileForGetters() {
  GgufWriter writer;
  writer.Add("count", uint16_t{300});
  writer.Add("signed", int64_t{7});
  writer.Add("negative", int32_t{-1});
  writer.Add("ratio", 0.5f);
  writer.Add("nan", std::numeric_limits<float>::quiet_NaN());
  writer.Add("flag", true);
  writer.Add("name", "kvern");
  writer.AddArray("names", std::vector<std::string>{"x", "y"});
  writer.AddArray("ints", std::vector<uint8_t>{1, 2, 3});
  writer.AddArray("huge", std::vector<uint64_t>{std::numeric_limits<uint64_t>::max()});
  writer.AddArray("floats", std::vector<double>{0.25, -1.0});
  return OpenGood(writer);
}

TEST(GgufGettersTest, IntegersComeFromAnyIntegerType) {
  const GgufFile file = FileForGetters();

  EXPECT_EQ(*file.GetUint("count"), 300u);
  EXPECT_EQ(*file.GetUint("signed"), 7u);
  EXPECT_EQ(*file.GetUintOr("absent", 9), 9u);
  EXPECT_EQ(*file.GetUintOr("count", 9), 300u);
}

TEST(GgufGettersTest, OtherScalarsAndDefaults) {
  const GgufFile file = FileForGetters();

  EXPECT_EQ(*file.GetFloat("ratio"), 0.5);
  EXPECT_EQ(*file.GetFloat("count"), 300.0);
  EXPECT_EQ(*file.GetFloatOr("absent", 2.5), 2.5);
  EXPECT_EQ(*file.GetBool("flag"), true);
  EXPECT_EQ(*file.GetBoolOr("absent", true), true);
  EXPECT_EQ(*file.GetString("name"), "kvern");
  EXPECT_EQ(*file.GetStringOr("absent", "default"), "default");
}

TEST(GgufGettersTest, Arrays) {
  const GgufFile file = FileForGetters();

  EXPECT_THAT(*file.GetStrings("names"), ElementsAre("x", "y"));
  EXPECT_THAT(*file.GetInts("ints"), ElementsAre(1, 2, 3));
  EXPECT_THAT(*file.GetFloats("floats"), ElementsAre(0.25f, -1.0f));
}

TEST(GgufGettersTest, OneValuePerLayerMayBeOneForAllOrAnArray) {
  const GgufFile file = FileForGetters();

  EXPECT_THAT(*file.GetUintPerLayer("ints", 3), ElementsAre(1, 2, 3));
  EXPECT_THAT(*file.GetUintPerLayer("count", 2), ElementsAre(300, 300));
  EXPECT_THAT(file.GetUintPerLayer("ints", 4).status().message(),
              HasSubstr("is array of 3 u8, expected an integer of at least 0, or an array of 4 of them"));
  EXPECT_THAT(file.GetUintPerLayer("ints", 3, /*max=*/2).status().message(), HasSubstr("found 3"));
}

TEST(GgufGettersTest, AMissingKeyIsNamedWithWhatWasExpected) {
  const Status status = FileForGetters().GetUint("llama.block_count", 100).status();

  EXPECT_EQ(status.code(), StatusCode::kNotFound);
  EXPECT_EQ(status.message(),
            "models/m.gguf: metadata key 'llama.block_count' is missing, expected an integer from 0 to 100");
}

TEST(GgufGettersTest, AWrongTypeIsNamedWithWhatWasFoundAndExpected) {
  const GgufFile file = FileForGetters();

  const Status status = file.GetUint("name").status();

  EXPECT_EQ(status.code(), StatusCode::kCorruption);
  EXPECT_THAT(status.message(), AllOf(HasSubstr("models/m.gguf: at byte "),
                                      HasSubstr("metadata key 'name' is string 'kvern', expected an integer")));
  EXPECT_THAT(file.GetString("count").status().message(), HasSubstr("'count' is u16 300, expected a string"));
  EXPECT_THAT(file.GetBool("count").status().message(), HasSubstr("expected a bool"));
  EXPECT_THAT(file.GetFloat("names").status().message(), HasSubstr("is array of 2 string, expected a finite number"));
  EXPECT_THAT(file.GetUint("ints").status().message(), HasSubstr("is array of 3 u8, expected an integer"));
  EXPECT_THAT(file.GetStrings("name").status().message(), HasSubstr("expected an array of strings"));
  EXPECT_THAT(file.GetStrings("ints").status().message(), HasSubstr("expected an array of strings"));
  EXPECT_THAT(file.GetInts("names").status().message(), HasSubstr("expected an array of integers"));
  EXPECT_THAT(file.GetFloats("ints").status().message(), HasSubstr("expected an array of f32 or f64"));
  EXPECT_THAT(file.GetUintOr("name", 3).status().message(), HasSubstr("expected an integer"));
}

TEST(GgufGettersTest, ValuesOutsideTheRangeAreRefused) {
  const GgufFile file = FileForGetters();

  EXPECT_THAT(file.GetUint("count", 299).status().message(),
              HasSubstr("is u16 300, expected an integer from 0 to 299"));
  EXPECT_THAT(file.GetUint("negative").status().message(), HasSubstr("is i32 -1, expected an integer of at least 0"));
  EXPECT_THAT(file.GetFloat("nan").status().message(), HasSubstr("expected a finite number"));
  EXPECT_THAT(file.GetInts("huge").status().message(), HasSubstr("below 2^63, found 18446744073709551615"));
}

TEST(GgufGettersTest, AMissingTensorIsNamed) {
  const Status status = FileForGetters().Tensor("output.weight").status();

  EXPECT_EQ(status.code(), StatusCode::kNotFound);
  EXPECT_EQ(status.message(), "models/m.gguf: tensor 'output.weight' is missing");
}

TEST(GgufGettersTest, ATensorOfAnUnsupportedTypeIsListedAndOnlyRefusedWhenAskedFor) {
  GgufWriter writer;
  const uint64_t dims[] = {256};
  writer.AddRawTensor("w", 17, dims, std::vector<uint8_t>(74));
  writer.AddRawTensor("x", 1234, dims, {});
  const GgufFile file = OpenGood(writer);

  const Status status = file.Tensor("w").status();

  EXPECT_EQ(file.tensors().size(), 2u);
  EXPECT_EQ(file.FindTensor("w")->num_bytes, 74u);
  EXPECT_EQ(status.code(), StatusCode::kUnsupported);
  EXPECT_THAT(status.message(),
              HasSubstr("tensor 'w' is stored as IQ2_XS, expected one of F32, F16, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q4_K, "
                        "Q5_K, Q6_K, BF16"));
  EXPECT_THAT(file.Tensor("x").status().message(), HasSubstr("is stored as type 1234"));
}

// --- Files that are no good ---

TEST(GgufFileFaultTest, AMissingFileIsNotFound) {
  MemFileSystem fs;

  EXPECT_EQ(GgufFile::Open(fs, "nowhere.gguf").status().code(), StatusCode::kNotFound);
}

TEST(GgufFileFaultTest, AFileThatCannotBeReadIsAnIoError) {
  MemFileSystem fs;
  fs.Put(kPath, SmallModel().Build());
  FaultFileSystem faulty(fs, /*first_failing_call=*/0);

  EXPECT_EQ(GgufFile::Open(faulty, kPath).status().code(), StatusCode::kIoError);
}

TEST(GgufFileFaultTest, AnEmptyFileIsToldSo) {
  EXPECT_EQ(OpenBad({}).message(), "models/m.gguf: the file is empty, expected a GGUF model");
}

TEST(GgufFileFaultTest, AForeignFileIsToldWhatWasFound) {
  const std::string foreign = "PK\x03\x04 this is no model";

  const Status status = OpenBad({foreign.begin(), foreign.end()});

  EXPECT_EQ(status.code(), StatusCode::kCorruption);
  EXPECT_EQ(status.message(), "models/m.gguf: at byte 0: not a GGUF file: found 'PK\\x03\\x04', expected 'GGUF'");
}

TEST(GgufFileFaultTest, AFileTruncatedAnywhereIsCorruption) {
  const std::vector<uint8_t> whole = SmallModel().Build();

  for (size_t length = 0; length < whole.size(); ++length) {
    const Status status = OpenBad({whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(length)});

    ASSERT_EQ(status.code(), StatusCode::kCorruption) << length << " of " << whole.size();
    ASSERT_THAT(status.message(), HasSubstr(kPath));
  }
}

// Looks at everything that an opened file offers.
void Touch(const GgufFile& file) {
  for (const GgufMetadata& entry : file.metadata()) {
    EXPECT_FALSE(entry.key.empty());
    EXPECT_FALSE(entry.value.TypeName().empty());
    entry.value.ToString();
  }
  for (const GgufTensorInfo& info : file.tensors()) {
    const Result<TensorView> view = file.Tensor(info.name);
    if (!view.ok()) continue;
    std::vector<float> row(view->row_elements());
    for (uint64_t i = 0; i < view->num_rows(); ++i) DecodeRow(view->dtype, view->row(i), row);
  }
}

TEST(GgufFileFaultTest, ASingleFlippedBitNeverDoesHarm) {
  std::vector<uint8_t> bytes = SmallModel().Build();

  for (size_t bit = 0; bit < bytes.size() * 8; ++bit) {
    bytes[bit / 8] ^= static_cast<uint8_t>(1u << (bit % 8));
    const Result<GgufFile> file = OpenBytes(bytes);
    if (file.ok()) {
      Touch(*file);
    } else {
      ASSERT_THAT(file.status().message(), HasSubstr(kPath)) << "bit " << bit;
    }
    bytes[bit / 8] ^= static_cast<uint8_t>(1u << (bit % 8));
  }
}

TEST(GgufFileFaultTest, OtherVersionsAreUnsupported) {
  for (const uint32_t version : {0u, 1u, 4u}) {
    const Status status = OpenBad(GgufWriter({.version = version}).Build());

    EXPECT_EQ(status.code(), StatusCode::kUnsupported);
    EXPECT_EQ(status.message(),
              "models/m.gguf: at byte 4: found GGUF version " + std::to_string(version) + ", expected 2 or 3");
  }
}

TEST(GgufFileFaultTest, ABigEndianFileIsToldSo) {
  const Status status = OpenBad(GgufWriter({.version = 0x03000000u}).Build());

  EXPECT_EQ(status.code(), StatusCode::kUnsupported);
  EXPECT_THAT(status.message(), HasSubstr("big-endian"));
}

TEST(GgufFileFaultTest, OneShardOfASplitModelIsUnsupported) {
  GgufWriter writer;
  writer.Add("split.no", uint16_t{1});
  writer.Add("split.count", uint16_t{3});

  const Status status = OpenBad(writer.Build());

  EXPECT_EQ(status.code(), StatusCode::kUnsupported);
  EXPECT_THAT(status.message(), HasSubstr("found part 2 of a model split into 3 files"));
}

TEST(GgufFileFaultTest, AModelSplitIntoOneFileIsWhole) {
  GgufWriter writer;
  writer.Add("split.count", uint16_t{1});

  EXPECT_TRUE(OpenBytes(writer.Build()).ok());
}

// The message about a file that `change` has broken.
template <typename Change>
std::string MessageAfter(const GgufWriter& writer, Change change) {
  std::vector<uint8_t> bytes = writer.Build();
  change(bytes);
  const Status status = OpenBad(std::move(bytes));
  EXPECT_EQ(status.code(), StatusCode::kCorruption);
  return status.message();
}

std::string MessageOf(const GgufWriter& writer) {
  return MessageAfter(writer, [](std::vector<uint8_t>&) {});
}

std::vector<uint8_t> LittleEndian(uint64_t value) {
  std::vector<uint8_t> bytes(8);
  StoreLittleEndian<uint64_t>(value, bytes.data());
  return bytes;
}

TEST(GgufFileFaultTest, CountsBeyondTheFileAreRefusedBeforeTheySizeAnything) {
  const GgufWriter writer = SmallModel();

  const auto put_count = [&](size_t offset, uint64_t count) {
    return MessageAfter(writer, [&](std::vector<uint8_t>& bytes) { StoreLittleEndian(count, bytes.data() + offset); });
  };

  EXPECT_THAT(put_count(8, 1ull << 60), AllOf(HasSubstr("at byte 8: found a count of 1152921504606846976 tensors"),
                                              HasSubstr("which is what the rest of the file has room for")));
  EXPECT_THAT(put_count(16, 1ull << 60),
              HasSubstr("at byte 16: found a count of 1152921504606846976 metadata entries"));
}

TEST(GgufFileFaultTest, CountsBeyondTheLimitsAreRefused) {
  GgufWriter writer;
  writer.Add("padding", std::string(2u << 20, 'x'));

  const std::string message =
      MessageAfter(writer, [](std::vector<uint8_t>& bytes) { StoreLittleEndian<uint64_t>(70000, bytes.data() + 16); });

  EXPECT_THAT(message, HasSubstr("found a count of 70000 metadata entries, expected at most 65536"));
}

TEST(GgufFileFaultTest, StringLengthsAreChecked) {
  GgufWriter beyond_file, beyond_limit, long_key;
  beyond_file.AddRaw("k", 8, LittleEndian(1000));
  beyond_limit.AddRaw("k", 8, LittleEndian(1ull << 63));
  long_key.Add(std::string(70000, 'k'), uint8_t{1});

  EXPECT_THAT(MessageOf(beyond_file),
              HasSubstr("the file ends inside the value of metadata key 'k': expected 1000 more bytes, found "));
  EXPECT_THAT(MessageOf(beyond_limit),
              HasSubstr("the value of metadata key 'k' has 9223372036854775808 bytes, expected at most 67108864"));
  EXPECT_THAT(MessageOf(long_key), HasSubstr("metadata key 0 has 70000 bytes, expected at most 65535"));
}

TEST(GgufFileFaultTest, ArrayLengthsAreChecked) {
  for (const uint32_t element_type : {0u, 5u, 7u, 8u, 9u, 12u}) {
    std::vector<uint8_t> value(4);
    StoreLittleEndian<uint32_t>(element_type, value.data());
    const std::vector<uint8_t> count = LittleEndian(std::numeric_limits<uint64_t>::max());
    value.insert(value.end(), count.begin(), count.end());
    GgufWriter writer;
    writer.AddRaw("k", 9, value);

    EXPECT_THAT(MessageOf(writer), AllOf(HasSubstr("found a count of 18446744073709551615"),
                                         HasSubstr("elements in the value of metadata key 'k'")));
  }
}

TEST(GgufFileFaultTest, AStringInsideAnArrayIsChecked) {
  std::vector<uint8_t> value = {8, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0};
  const std::vector<uint8_t> length = LittleEndian(500);
  value.insert(value.end(), length.begin(), length.end());
  GgufWriter writer;
  writer.AddRaw("k", 9, value);

  EXPECT_THAT(MessageOf(writer), HasSubstr("the file ends inside string 0 of the value of metadata key 'k'"));
}

TEST(GgufFileFaultTest, ArraysNestedTooDeeplyAreRefused) {
  std::vector<uint8_t> value;
  for (int depth = 0; depth < 5; ++depth) value.insert(value.end(), {9, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0});
  GgufWriter writer;
  writer.AddRaw("k", 9, value);

  EXPECT_THAT(MessageOf(writer), HasSubstr("arrays inside arrays deeper than expected (at most 4)"));
}

TEST(GgufFileFaultTest, UnknownValueTypesAreNamed) {
  GgufWriter writer;
  writer.AddRaw("k", 13, LittleEndian(0));

  EXPECT_THAT(MessageOf(writer), HasSubstr("the value of metadata key 'k' has type 13, expected 0 to 12"));
}

TEST(GgufFileFaultTest, ABoolIsZeroOrOne) {
  GgufWriter scalar, array;
  scalar.AddRaw("k", 7, std::vector<uint8_t>{2});
  array.AddRaw("k", 9, std::vector<uint8_t>{7, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 1, 9});

  EXPECT_THAT(MessageOf(scalar), HasSubstr("is a bool of 2, expected 0 or 1"));
  EXPECT_THAT(MessageOf(array), HasSubstr("is a bool of 9, expected 0 or 1"));
}

TEST(GgufFileFaultTest, DuplicateAndEmptyKeysAreRefused) {
  GgufWriter duplicate, empty;
  duplicate.Add("k", uint8_t{1});
  duplicate.Add("other", uint8_t{1});
  duplicate.Add("k", uint8_t{2});
  empty.Add("", uint8_t{1});

  EXPECT_THAT(MessageOf(duplicate), AllOf(HasSubstr("at byte 56: metadata key 'k' occurs twice, expected once"),
                                          HasSubstr("first at byte 24")));
  EXPECT_THAT(MessageOf(empty), HasSubstr("metadata key 0 is empty, expected a name"));
}

TEST(GgufFileFaultTest, TheAlignmentIsAPowerOfTwoInRange) {
  for (const uint32_t alignment : {0u, 1u, 48u, 1u << 21}) {
    GgufWriter writer;
    writer.Add("general.alignment", alignment);

    EXPECT_THAT(MessageOf(writer), HasSubstr("general.alignment is " + std::to_string(alignment) +
                                             ", expected a power of two from 8 to 1048576"));
  }
  GgufWriter text;
  text.Add("general.alignment", "32");
  EXPECT_THAT(MessageOf(text), HasSubstr("general.alignment is 32, expected a power of two"));
}

TEST(GgufFileFaultTest, TensorNamesAreUniqueNotEmptyAndAtMost64Bytes) {
  const uint64_t dims[] = {1};
  GgufWriter duplicate, empty, longest, too_long;
  duplicate.AddRawTensor("t", 0, dims, std::vector<uint8_t>(4));
  duplicate.AddRawTensor("t", 0, dims, std::vector<uint8_t>(4));
  empty.AddRawTensor("", 0, dims, std::vector<uint8_t>(4));
  longest.AddRawTensor(std::string(64, 'n'), 0, dims, std::vector<uint8_t>(4));
  too_long.AddRawTensor(std::string(65, 'n'), 0, dims, std::vector<uint8_t>(4));

  EXPECT_THAT(MessageOf(duplicate), HasSubstr("tensor 't' occurs twice, expected once"));
  EXPECT_THAT(MessageOf(empty), HasSubstr("tensor 0 has an empty name"));
  EXPECT_TRUE(OpenBytes(longest.Build()).ok());
  EXPECT_THAT(MessageOf(too_long), HasSubstr("the name of tensor 0 has 65 bytes, expected at most 64"));
}

std::string MessageOfTensor(uint32_t ggml_type, std::vector<uint64_t> dims, size_t num_bytes) {
  GgufWriter writer;
  writer.AddRawTensor("t", ggml_type, dims, std::vector<uint8_t>(num_bytes));
  return MessageOf(writer);
}

TEST(GgufFileFaultTest, DimensionsAreChecked) {
  EXPECT_THAT(MessageOfTensor(0, {1, 1, 1, 1, 1}, 4), HasSubstr("tensor 't' has 5 dimensions, expected at most 4"));
  EXPECT_THAT(MessageOfTensor(0, {4, 0}, 16), HasSubstr("tensor 't' has a dimension 1 of 0, expected at least 1"));
  EXPECT_THAT(MessageOfTensor(0, {1ull << 32, 1ull << 32}, 16),
              HasSubstr("tensor 't' has dimensions whose product overflows 64 bits"));
  EXPECT_THAT(MessageOfTensor(0, {1ull << 31, 1ull << 32}, 16),
              HasSubstr("tensor 't' has a size that overflows 64 bits"));
  EXPECT_THAT(MessageOfTensor(12, {255}, 144),
              HasSubstr("tensor 't' has rows of 255 elements, expected a multiple of 256, the block of Q4_K"));
}

TEST(GgufFileFaultTest, TensorDataLiesInsideTheFile) {
  EXPECT_THAT(MessageOfTensor(0, {100}, 64), AllOf(HasSubstr("tensor 't' has 400 bytes at data offset 0"),
                                                   HasSubstr("expected an end inside the file")));
}

// One f32 tensor named "t"; its data offset is the last field before the data.
std::string MessageWithOffset(uint64_t offset) {
  GgufWriter writer;
  writer.AddTensorFromValues("t", DType::kF32, {8}, std::vector<float>(8));
  return MessageAfter(writer, [&](std::vector<uint8_t>& bytes) {
    StoreLittleEndian<uint64_t>(offset, bytes.data() + 24 + 8 + 1 + 4 + 8 + 4);
  });
}

TEST(GgufFileFaultTest, DataOffsetsAreAlignedAndDoNotOverflow) {
  EXPECT_THAT(MessageWithOffset(16),
              HasSubstr("tensor 't' has data offset 16, expected a multiple of the alignment 32"));
  EXPECT_THAT(MessageWithOffset(~uint64_t{31}), HasSubstr("expected an end inside the file"));
  EXPECT_THAT(MessageWithOffset(64), HasSubstr("expected an end inside the file"));
}

TEST(GgufFileFaultTest, TensorsDoNotOverlap) {
  GgufWriter writer;
  writer.AddTensorFromValues("a", DType::kF32, {16}, std::vector<float>(16));
  writer.AddTensorFromValues("b", DType::kF32, {16}, std::vector<float>(16));
  const size_t entry_bytes = 8 + 1 + 4 + 8 + 4 + 8;

  const std::string message = MessageAfter(writer, [&](std::vector<uint8_t>& bytes) {
    StoreLittleEndian<uint64_t>(32, bytes.data() + 24 + 2 * entry_bytes - 8);
  });

  EXPECT_THAT(message, AllOf(HasSubstr("tensor 'b' begins at byte "), HasSubstr("inside the data of tensor 'a'"),
                             HasSubstr("expected tensors that do not overlap")));
}

TEST(GgufFileFaultTest, NamesFromTheFileArePrintedHarmlessly) {
  GgufWriter writer;
  writer.AddRaw("k\x1b[31m\n", 99, {});

  EXPECT_THAT(MessageOf(writer), HasSubstr("'k\\x1b[31m\\x0a'"));
}

}  // namespace
}  // namespace kvern
