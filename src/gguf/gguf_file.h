// GgufFile: an opened, checked model file. Metadata and tensors are views into its mapping; nothing is copied.
// Immutable after Open, so any thread may read it. Everything it hands out must not outlive it (moving it is fine).
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "gguf/gguf_parser.h"
#include "gguf/gguf_value.h"
#include "kvern/status.h"
#include "platform/file_system.h"
#include "tensor/tensor_view.h"

namespace kvern {

class GgufFile {
 public:
  // kCorruption for bytes that break the format (the message names the byte offset), kUnsupported for big-endian
  // files, other versions and one shard of a split model; otherwise what `fs` says.
  static Result<GgufFile> Open(FileSystem& fs, const std::string& path);
  // The same for a file that is already mapped; `path` is for messages only.
  static Result<GgufFile> FromMapping(std::unique_ptr<MappedFile> mapping, std::string path);

  const std::string& path() const { return path_; }
  uint32_t version() const { return contents_.version; }
  uint64_t alignment() const { return contents_.alignment; }
  uint64_t file_bytes() const { return mapping_->bytes().size(); }
  // All of both, in the order of the file.
  std::span<const GgufMetadata> metadata() const { return contents_.metadata; }
  std::span<const GgufTensorInfo> tensors() const { return contents_.tensors; }

  // nullptr where the file has no such key.
  const GgufValue* Find(std::string_view key) const;
  bool Has(std::string_view key) const { return Find(key) != nullptr; }

  // The value of a key that must be there (kNotFound without it), or that has a default (...Or). A value of another
  // type or outside the range is kCorruption; the message names file, key, what was found and what was expected.
  // Integers may have any integer type in the file; floats take integers too and must be finite.
  Result<uint64_t> GetUint(std::string_view key, uint64_t max = kNoLimit) const;
  Result<uint64_t> GetUintOr(std::string_view key, uint64_t fallback, uint64_t max = kNoLimit) const;
  Result<double> GetFloat(std::string_view key) const;
  Result<double> GetFloatOr(std::string_view key, double fallback) const;
  Result<bool> GetBool(std::string_view key) const;
  Result<bool> GetBoolOr(std::string_view key, bool fallback) const;
  Result<std::string_view> GetString(std::string_view key) const;
  Result<std::string_view> GetStringOr(std::string_view key, std::string_view fallback) const;
  // Arrays that must be there; ask Has() first where they may be absent.
  Result<std::span<const std::string_view>> GetStrings(std::string_view key) const;
  Result<std::vector<int64_t>> GetInts(std::string_view key) const;
  Result<std::vector<float>> GetFloats(std::string_view key) const;
  // One value per layer: an array of `num_layers` integers, or one integer that holds for all of them.
  Result<std::vector<uint64_t>> GetUintPerLayer(std::string_view key, uint64_t num_layers,
                                                uint64_t max = kNoLimit) const;

  // nullptr where the file has no such tensor.
  const GgufTensorInfo* FindTensor(std::string_view name) const;
  bool HasTensor(std::string_view name) const { return FindTensor(name) != nullptr; }
  // kNotFound where the file has no such tensor, kUnsupported (naming its type and the types that kvern reads) where
  // it is of another type. The data is not looked at: ScalesAreFinite is the caller's to ask.
  Result<TensorView> Tensor(std::string_view name) const;

  // The bytes of this tensor are not needed soon (MappedFile::Release).
  void Release(const TensorView& tensor) const;

 private:
  static constexpr uint64_t kNoLimit = std::numeric_limits<uint64_t>::max();

  GgufFile(std::string path, std::unique_ptr<MappedFile> mapping, GgufContents contents)
      : path_(std::move(path)), mapping_(std::move(mapping)), contents_(std::move(contents)) {}

  Status CheckNotSplit() const;
  const GgufMetadata* FindEntry(std::string_view key) const;
  Result<const GgufMetadata*> Require(std::string_view key, std::string_view expected) const;
  Result<const GgufMetadata*> RequireArray(std::string_view key, std::string_view expected) const;
  Status WrongValue(const GgufMetadata& entry, std::string_view expected) const;
  Result<uint64_t> UintOf(const GgufMetadata& entry, const GgufValue& value, uint64_t max) const;

  std::string path_;
  std::unique_ptr<MappedFile> mapping_;
  GgufContents contents_;
};

}  // namespace kvern
