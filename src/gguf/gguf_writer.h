// GgufWriter builds a GGUF file, for tests and tools: in memory, or straight to disk with tensors that are made while
// they are written. Wrong use is a bug of the caller (KVERN_CHECK), but the Raw calls take anything, so that tests can
// also write files that a reader must refuse.
#pragma once

#include <concepts>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "base/byte_reader.h"
#include "gguf/gguf_value.h"
#include "kvern/status.h"
#include "platform/file_system.h"
#include "tensor/dtype.h"

namespace kvern {

// The C++ types of GGUF scalars; the file's type follows from them (int32_t: i32, float: f32 ...).
template <typename T>
concept GgufScalar = std::is_arithmetic_v<T> && !std::same_as<T, long double> && !std::same_as<T, wchar_t>;

template <GgufScalar T>
constexpr GgufType GgufTypeOf() {
  if constexpr (std::same_as<T, bool>) return GgufType::kBool;
  if constexpr (std::floating_point<T>) return sizeof(T) == 4 ? GgufType::kF32 : GgufType::kF64;
  constexpr bool kIsSigned = std::is_signed_v<T>;
  if constexpr (sizeof(T) == 1) return kIsSigned ? GgufType::kI8 : GgufType::kU8;
  if constexpr (sizeof(T) == 2) return kIsSigned ? GgufType::kI16 : GgufType::kU16;
  if constexpr (sizeof(T) == 4) return kIsSigned ? GgufType::kI32 : GgufType::kU32;
  return kIsSigned ? GgufType::kI64 : GgufType::kU64;
}

struct GgufWriterOptions {
  uint32_t version = 3;
  uint64_t alignment = 32;  // Written as general.alignment where it is not 32.
};

// Makes the bytes of one tensor from first to last: fills `part`, which is whole blocks of its type and follows the
// part before. A status that is not ok ends the writing of the file with it.
using TensorSource = std::function<Status(std::span<uint8_t> part)>;

class GgufWriter {
 public:
  explicit GgufWriter(GgufWriterOptions options = {}) : options_(options) {}

  // Metadata, in the order of the calls.
  template <GgufScalar T>
  void Add(std::string_view key, T value) {
    std::vector<uint8_t> bytes;
    AppendScalar(value, bytes);
    AddRaw(key, static_cast<uint32_t>(GgufTypeOf<T>()), bytes);
  }
  void Add(std::string_view key, std::string_view text);
  void Add(std::string_view key, const char* text) { Add(key, std::string_view(text)); }
  template <GgufScalar T>
  void AddArray(std::string_view key, const std::vector<T>& elements) {
    AddRaw(key, static_cast<uint32_t>(GgufType::kArray), EncodeArray(elements));
  }
  void AddArray(std::string_view key, const std::vector<std::string>& elements);
  // An array of arrays.
  template <GgufScalar T>
  void AddArray(std::string_view key, const std::vector<std::vector<T>>& arrays) {
    std::vector<uint8_t> bytes;
    AppendArrayHead(GgufType::kArray, arrays.size(), bytes);
    for (const std::vector<T>& array : arrays) {
      const std::vector<uint8_t> encoded = EncodeArray(array);
      bytes.insert(bytes.end(), encoded.begin(), encoded.end());
    }
    AddRaw(key, static_cast<uint32_t>(GgufType::kArray), bytes);
  }
  // `value` as it stands in the file after the type id.
  void AddRaw(std::string_view key, uint32_t type_id, std::span<const uint8_t> value);

  // A tensor and its data. dims[0] is a multiple of the type's block; bytes.size() fits dtype and dims.
  void AddTensor(std::string_view name, DType dtype, std::span<const uint64_t> dims, std::span<const uint8_t> bytes);
  void AddTensor(std::string_view name, DType dtype, std::initializer_list<uint64_t> dims,
                 std::span<const uint8_t> bytes) {
    AddTensor(name, dtype, std::span<const uint64_t>(dims.begin(), dims.size()), bytes);
  }
  // The same from values, encoded row by row (EncodeRow).
  void AddTensorFromValues(std::string_view name, DType dtype, std::span<const uint64_t> dims,
                           std::span<const float> values);
  void AddTensorFromValues(std::string_view name, DType dtype, std::initializer_list<uint64_t> dims,
                           std::span<const float> values) {
    AddTensorFromValues(name, dtype, std::span<const uint64_t>(dims.begin(), dims.size()), values);
  }
  // A tensor that is never in memory as a whole: `source` is called by WriteTo. dims[0] is a multiple of the type's
  // block.
  void AddStreamedTensor(std::string_view name, DType dtype, std::span<const uint64_t> dims, TensorSource source);
  // Any type id and dimensions, however they fit `bytes`.
  void AddRawTensor(std::string_view name, uint32_t ggml_type, std::span<const uint64_t> dims,
                    std::span<const uint8_t> bytes);

  // The whole file. The data of each tensor is padded to the alignment, that of the last one too. There may be no
  // streamed tensor.
  std::vector<uint8_t> Build() const;
  // On an error the file stays as far as it was written. Streamed tensors can be written once.
  Status WriteTo(FileSystem& fs, const std::string& path) const;

 private:
  struct Tensor {
    std::string name;
    uint32_t ggml_type;
    std::vector<uint64_t> dims;
    uint64_t offset;  // In the data section.
    uint64_t num_bytes;
    std::vector<uint8_t> bytes;  // Empty where there is a source.
    TensorSource source;
    uint32_t source_unit;  // Bytes of one block.
  };

  void Append(Tensor tensor);
  std::vector<uint8_t> Head() const;  // All before the data section, padded.
  static Status WriteStreamed(const Tensor& tensor, WritableFile& file);

  template <GgufScalar T>
  static void AppendScalar(T value, std::vector<uint8_t>& out) {
    if constexpr (std::same_as<T, bool>) {
      out.push_back(value ? 1 : 0);
    } else {
      out.resize(out.size() + sizeof(T));
      StoreLittleEndian<T>(value, out.data() + out.size() - sizeof(T));
    }
  }
  static void AppendString(std::string_view text, std::vector<uint8_t>& out);
  static void AppendArrayHead(GgufType element_type, uint64_t count, std::vector<uint8_t>& out);
  template <GgufScalar T>
  static std::vector<uint8_t> EncodeArray(const std::vector<T>& elements) {
    std::vector<uint8_t> bytes;
    AppendArrayHead(GgufTypeOf<T>(), elements.size(), bytes);
    for (const T element : elements) AppendScalar<T>(element, bytes);
    return bytes;
  }

  GgufWriterOptions options_;
  uint64_t num_metadata_ = 0;
  std::vector<uint8_t> metadata_;
  std::vector<Tensor> tensors_;
  uint64_t data_bytes_ = 0;  // Of all tensors, padded.
};

}  // namespace kvern
