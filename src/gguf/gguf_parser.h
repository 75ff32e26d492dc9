// Parses the header, the metadata and the tensor list of a GGUF file (versions 2 and 3, little-endian).
// The bytes are untrusted: every length is checked against what is left and against a limit before it sizes anything,
// memory used is at most a small multiple of the file's size, and a fault is a Status that names the file, the byte
// offset, what was found and what was expected.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "gguf/gguf_value.h"
#include "kvern/status.h"

namespace kvern {

struct GgufLimits {
  static constexpr uint64_t kMaxTensors = 1u << 18;
  static constexpr uint64_t kMaxMetadata = 1u << 16;
  static constexpr uint64_t kMaxKeyBytes = 65535;  // The format's own limit.
  static constexpr uint64_t kMaxStringBytes = 64u << 20;
  static constexpr uint64_t kMaxTensorNameBytes = 64;  // The format's own limit.
  static constexpr uint32_t kMaxDims = 4;              // The format's own limit.
  static constexpr uint32_t kMaxArrayDepth = 4;        // Arrays inside arrays.
  static constexpr uint64_t kMinAlignment = 8;         // The format's own limit.
  static constexpr uint64_t kMaxAlignment = 1u << 20;
};

struct GgufMetadata {
  std::string_view key;
  GgufValue value;
  uint64_t offset = 0;  // Of the key, in the file.
};

struct GgufTensorInfo {
  std::string_view name;
  uint32_t ggml_type = 0;  // Perhaps one that kvern does not read: DTypeFromGgmlId, GgmlTypeName.
  uint32_t num_dims = 0;
  std::array<uint64_t, 4> dims = {1, 1, 1, 1};  // dims[0] is the fastest; unused ones are 1.
  uint64_t info_offset = 0;                     // Of this entry, in the file.
  uint64_t data_offset = 0;                     // Of the data, in the file.
  uint64_t num_bytes = 0;  // Inside the file and free of overlaps. 0: the type's size is not known.

  uint64_t num_elements() const { return dims[0] * dims[1] * dims[2] * dims[3]; }
};

// Views point into the parsed bytes.
struct GgufContents {
  uint32_t version = 0;
  uint64_t alignment = 32;
  uint64_t data_offset = 0;  // Where the tensor data begins.
  std::vector<GgufMetadata> metadata;
  std::vector<GgufTensorInfo> tensors;
  // Indices into the two above, sorted by key and by name: no two are equal.
  std::vector<uint32_t> metadata_by_key;
  std::vector<uint32_t> tensors_by_name;
};

// `path` is for messages only. Shards of a split model are not refused here.
Result<GgufContents> ParseGguf(std::span<const uint8_t> bytes, const std::string& path);

}  // namespace kvern
