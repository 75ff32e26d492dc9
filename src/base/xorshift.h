// XorShift64: a small random generator whose sequence is the same everywhere, for weights and inputs that tests,
// fuzzing and benches make up. Not for sampling. Source: xorshift64*, arXiv:1402.6246.
#pragma once

#include <cstdint>

namespace kvern {

class XorShift64 {
 public:
  explicit XorShift64(uint64_t seed) : state_(seed * 0x9E3779B97F4A7C15u + 1) {}
  uint64_t Next64() {
    state_ ^= state_ >> 12;
    state_ ^= state_ << 25;
    state_ ^= state_ >> 27;
    return state_ * 0x2545F4914F6CDD1Du;
  }
  // The upper half, whose bits are the better ones.
  uint32_t Next32() { return static_cast<uint32_t>(Next64() >> 32); }

 private:
  uint64_t state_;
};

}  // namespace kvern
