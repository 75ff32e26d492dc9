// Every tensor type id that the GGUF format has given out, read by kvern or not, so that a file can be listed and its
// layout checked even where some tensors cannot be used.
#pragma once

#include <cstdint>
#include <string_view>

namespace kvern {

struct GgmlType {
  uint32_t id;
  std::string_view name;
  // 0 in both: an id that the format has taken back; the size of such a tensor is unknown.
  uint32_t block_elements;
  uint32_t block_bytes;
};

// nullptr for an id that the format has not given out.
const GgmlType* FindGgmlType(uint32_t id);

}  // namespace kvern
