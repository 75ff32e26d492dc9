// Source: an endless stream of values out of the input of a fuzz target.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace kvern {

// Bytes of the input, one after the other and from the start again; later rounds differ from the first, so that what is
// made of them does not all look alike.
class Source {
 public:
  explicit Source(std::span<const uint8_t> bytes) : bytes_(bytes) {}
  uint8_t Byte() {
    if (bytes_.empty()) return 0;
    const size_t round = at_ / bytes_.size();
    return static_cast<uint8_t>(bytes_[at_++ % bytes_.size()] + round * 37);
  }
  uint32_t Word() {
    uint32_t word = 0;
    for (int i = 0; i < 4; ++i) word = word << 8 | Byte();
    return word;
  }

 private:
  std::span<const uint8_t> bytes_;
  size_t at_ = 0;
};

}  // namespace kvern
