// Arithmetic on sizes that come from outside: nullopt instead of a wrapped result.
#pragma once

#include <cstdint>
#include <optional>

namespace kvern {

inline std::optional<uint64_t> CheckedAdd(uint64_t a, uint64_t b) {
  uint64_t sum;
  if (__builtin_add_overflow(a, b, &sum)) return std::nullopt;
  return sum;
}

inline std::optional<uint64_t> CheckedMul(uint64_t a, uint64_t b) {
  uint64_t product;
  if (__builtin_mul_overflow(a, b, &product)) return std::nullopt;
  return product;
}

// The smallest multiple of `unit` (> 0) that is >= value; the caller knows that it fits.
constexpr uint64_t RoundUp(uint64_t value, uint64_t unit) { return (value + unit - 1) / unit * unit; }
constexpr uint64_t CeilDiv(uint64_t value, uint64_t unit) { return (value + unit - 1) / unit; }

}  // namespace kvern
