// ByteReader: walks little-endian bytes that come from outside and never reads past their end.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <type_traits>
#include <utility>

namespace kvern {

// The integer or float whose little-endian bytes begin at `bytes`; no alignment needed.
template <typename T>
T LoadLittleEndian(const uint8_t* bytes) {
  static_assert(std::is_arithmetic_v<T> && !std::is_same_v<T, bool>);
  T value;
  if constexpr (std::endian::native == std::endian::little) {
    std::memcpy(&value, bytes, sizeof(T));
  } else {
    uint8_t reversed[sizeof(T)];
    for (size_t i = 0; i < sizeof(T); ++i) reversed[i] = bytes[sizeof(T) - 1 - i];
    std::memcpy(&value, reversed, sizeof(T));
  }
  return value;
}

template <typename T>
void StoreLittleEndian(T value, uint8_t* bytes) {
  static_assert(std::is_arithmetic_v<T> && !std::is_same_v<T, bool>);
  std::memcpy(bytes, &value, sizeof(T));
  if constexpr (std::endian::native != std::endian::little) {
    for (size_t i = 0; i < sizeof(T) / 2; ++i) std::swap(bytes[i], bytes[sizeof(T) - 1 - i]);
  }
}

// A read that does not fit returns nullopt and leaves the reader where it was.
class ByteReader {
 public:
  // `bytes` must outlive the reader and everything taken from it.
  explicit ByteReader(std::span<const uint8_t> bytes) : bytes_(bytes) {}

  size_t offset() const { return offset_; }
  size_t remaining() const { return bytes_.size() - offset_; }

  template <typename T>
  std::optional<T> Read() {
    if (remaining() < sizeof(T)) return std::nullopt;
    const T value = LoadLittleEndian<T>(bytes_.data() + offset_);
    offset_ += sizeof(T);
    return value;
  }

  // The next `num_bytes` bytes, borrowed. Takes any number that a file may claim.
  std::optional<std::span<const uint8_t>> Take(uint64_t num_bytes) {
    if (num_bytes > remaining()) return std::nullopt;
    const auto taken = bytes_.subspan(offset_, static_cast<size_t>(num_bytes));
    offset_ += static_cast<size_t>(num_bytes);
    return taken;
  }

 private:
  std::span<const uint8_t> bytes_;
  size_t offset_ = 0;
};

}  // namespace kvern
