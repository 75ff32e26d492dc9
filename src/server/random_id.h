// Ids and seeds that nobody can foresee.
#pragma once

#include <cstdint>
#include <random>
#include <string>

namespace kvern::server {

inline uint64_t RandomBits64() {
  std::random_device device;
  return uint64_t{device()} << 32 | device();
}

// 32 hex digits.
inline std::string RandomHex128() {
  constexpr char kHex[] = "0123456789abcdef";
  std::string text;
  for (int half = 0; half < 2; ++half) {
    uint64_t bits = RandomBits64();
    for (int i = 0; i < 16; ++i, bits >>= 4) text += kHex[bits & 15];
  }
  return text;
}

}  // namespace kvern::server
