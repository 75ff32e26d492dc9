// Weights and activations for tests, fuzzing and measuring of kernels: any codes, finite scales of a sane size.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "base/xorshift.h"
#include "tensor/dtype.h"
#include "tensor/half.h"
#include "tensor/tensor_view.h"

namespace kvern {

class TestRandom {
 public:
  explicit TestRandom(uint64_t seed) : bits_(seed) {}
  uint32_t Next() { return bits_.Next32(); }
  uint32_t Below(uint32_t limit) { return Next() % limit; }
  // Uniform in [-1, 1).
  float Symmetric() { return static_cast<float>(static_cast<int32_t>(Next()) >> 8) * 0x1p-23f; }

 private:
  XorShift64 bits_;
};

// Where a block of an integer type keeps its f16 scale and, if it has one, its minimum.
inline std::vector<size_t> F16FieldsOf(DType dtype) {
  switch (dtype) {
    case DType::kQ4_1:
    case DType::kQ5_1:
    case DType::kQ4_K:
    case DType::kQ5_K: return {0, 2};
    case DType::kQ6_K: return {208};
    default: return {0};
  }
}

// A finite f16: mostly around 0.01 with either sign, now and then zero or subnormal.
inline uint16_t RandomScale(TestRandom& random) {
  const uint32_t kind = random.Below(64);
  if (kind == 0) return static_cast<uint16_t>(random.Below(2) << 15);
  if (kind == 1) return static_cast<uint16_t>(random.Next() & 0x83ff);
  return static_cast<uint16_t>(0x1c00 + random.Below(0x0c00) + (random.Below(4) == 0 ? 0x8000 : 0));
}

// The bytes of a row as a file has them.
inline std::vector<uint8_t> RandomRow(DType dtype, uint32_t num_inputs, TestRandom& random) {
  const DTypeInfo& info = GetDTypeInfo(dtype);
  std::vector<uint8_t> row(RowBytes(dtype, num_inputs));
  for (uint8_t& byte : row) byte = static_cast<uint8_t>(random.Next());
  for (size_t block = 0; block < row.size(); block += info.block_bytes) {
    uint8_t* p = row.data() + block;
    if (dtype == DType::kF32) {
      const float value = random.Symmetric();
      std::memcpy(p, &value, 4);
    } else if (IsFloat(dtype)) {
      const float value = random.Symmetric();
      const uint16_t half = dtype == DType::kF16 ? F32ToF16(value) : F32ToBf16(value);
      std::memcpy(p, &half, 2);
    } else {
      for (const size_t field : F16FieldsOf(dtype)) {
        const uint16_t scale = RandomScale(random);
        std::memcpy(p + field, &scale, 2);
      }
    }
  }
  return row;
}

// A weight matrix that owns its bytes.
struct TestWeights {
  std::vector<uint8_t> bytes;
  TensorView view;

  TestWeights(DType dtype, uint32_t num_outputs, uint32_t num_inputs, uint64_t seed) {
    TestRandom random(seed);
    for (uint32_t row = 0; row < num_outputs; ++row) {
      const std::vector<uint8_t> row_bytes = RandomRow(dtype, num_inputs, random);
      bytes.insert(bytes.end(), row_bytes.begin(), row_bytes.end());
    }
    view.name = "test." + std::string(GetDTypeInfo(dtype).name);
    view.dtype = dtype;
    view.num_dims = 2;
    view.dims = {num_inputs, num_outputs, 1, 1};
    view.data = bytes;
  }
  TestWeights(const TestWeights&) = delete;
  TestWeights& operator=(const TestWeights&) = delete;
};

inline std::vector<float> RandomActivations(size_t count, uint64_t seed) {
  TestRandom random(seed);
  std::vector<float> x(count);
  for (float& value : x) value = random.Symmetric() * (random.Below(32) == 0 ? 20.0f : 1.0f);
  return x;
}

}  // namespace kvern
