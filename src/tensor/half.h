// F16 (IEEE binary16) and BF16 to and from F32, in integer arithmetic: the same bits on every machine.
#pragma once

#include <bit>
#include <cstdint>

namespace kvern {

// Exact for every value, subnormals included. A signalling NaN comes out quiet with its payload, as VCVTPH2PS does it.
inline float F16ToF32(uint16_t half) {
  const uint32_t sign = static_cast<uint32_t>(half & 0x8000u) << 16;
  const uint32_t exponent = (half >> 10) & 0x1fu;
  const uint32_t mantissa = half & 0x3ffu;
  if (exponent == 0x1f) {
    const uint32_t quiet = mantissa != 0 ? 0x00400000u : 0u;
    return std::bit_cast<float>(sign | 0x7f800000u | quiet | (mantissa << 13));
  }
  if (exponent == 0) {
    // mantissa * 2^-24: both factors are floats and so is the product, so nothing is rounded.
    const float magnitude = static_cast<float>(mantissa) * 0x1p-24f;
    return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(magnitude));
  }
  return std::bit_cast<float>(sign | ((exponent + 112) << 23) | (mantissa << 13));
}

// Rounds to nearest even; from 65520 on the result is infinite. NaN comes out quiet with the top of its payload, as
// VCVTPS2PH does it.
inline uint16_t F32ToF16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t sign = (bits >> 16) & 0x8000u;
  const uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return static_cast<uint16_t>(sign | 0x7e00u | ((magnitude >> 13) & 0x3ffu));
  if (magnitude >= 0x477ff000u) return static_cast<uint16_t>(sign | 0x7c00u);
  if (magnitude < 0x38800000u) {  // Below 2^-14: a subnormal or zero, in units of 2^-24.
    if (magnitude < 0x33000000u) return static_cast<uint16_t>(sign);  // Below 2^-25.
    const uint32_t shift = 126 - (magnitude >> 23);                   // 14 .. 24
    const uint32_t mantissa = (magnitude & 0x007fffffu) | 0x00800000u;
    const uint32_t kept = mantissa >> shift;
    const uint32_t lost = mantissa & ((1u << shift) - 1);
    const uint32_t tie = 1u << (shift - 1);
    const uint32_t round_up = (lost > tie || (lost == tie && (kept & 1u) != 0)) ? 1u : 0u;
    return static_cast<uint16_t>(sign | (kept + round_up));
  }
  const uint32_t rounded = magnitude + 0xfffu + ((magnitude >> 13) & 1u);
  return static_cast<uint16_t>(sign | ((rounded - 0x38000000u) >> 13));
}

// Exact: a BF16 is the upper half of an F32.
inline float Bf16ToF32(uint16_t bf16) { return std::bit_cast<float>(static_cast<uint32_t>(bf16) << 16); }

// Rounds to nearest even; NaN comes out quiet with the top of its payload.
inline uint16_t F32ToBf16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<uint16_t>((bits >> 16) | 0x40u);
  return static_cast<uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

}  // namespace kvern
