// Kernels over the rows of activations (kernel_table.h: "rows"). Included inside a target's namespace after its simd
// header. Lane i of a vector holds elements i, i + 16, ...: a sum has the same sixteen parts on every target.
#pragma once

#include "kernels/inl/elementwise_exp2.inl.h"

// Calls body(begin, count) for each vector of n elements: count is 16, less for the last one.
template <class Body>
KVERN_INLINE void ForEachVector(uint32_t n, Body body) {
  uint32_t i = 0;
  for (; i + 16 <= n; i += 16) body(i, 16u);
  if (i < n) body(i, n - i);
}

KVERN_INLINE F32x16 LoadUpTo(const float* p, uint32_t count) { return count == 16 ? Load(p) : LoadPartial(p, count); }
KVERN_INLINE void StoreUpTo(float* p, F32x16 x, uint32_t count) {
  if (count == 16) {
    Store(p, x);
  } else {
    StorePartial(p, x, count);
  }
}

void RmsNorm(const float* x, const float* weight, uint32_t n, float eps, float* out) {
  F32x16 squares = Zero();
  ForEachVector(n, [&](uint32_t i, uint32_t count) {
    const F32x16 v = LoadUpTo(x + i, count);
    squares = Fma(v, v, squares);
  });
  const F32x16 mean = Div(Set1(HorizontalSum(squares)), Set1(static_cast<float>(n)));
  const F32x16 r = Div(Set1(1.0f), Sqrt(Add(mean, Set1(eps))));
  ForEachVector(n, [&](uint32_t i, uint32_t count) {
    StoreUpTo(out + i, Mul(Mul(LoadUpTo(x + i, count), r), LoadUpTo(weight + i, count)), count);
  });
}

// x * sigmoid, where exp2(exponent) is the exponential of the sigmoid: x / (1 + 2^exponent). The exponent ends at 126,
// where a sigmoid is below 2^-125: nothing overflows.
KVERN_INLINE F32x16 TimesSigmoid(F32x16 x, F32x16 exponent) {
  const F32x16 largest = Set1(126.0f);
  const F32x16 e = Exp2(Select(Greater(exponent, largest), largest, exponent));
  return Div(x, Add(Set1(1.0f), e));
}

void Swiglu(const float* gate, const float* up, uint32_t n, float* out) {
  ForEachVector(n, [&](uint32_t i, uint32_t count) {
    const F32x16 x = LoadUpTo(gate + i, count);
    StoreUpTo(out + i, Mul(TimesSigmoid(x, Mul(x, Set1(-kLog2E))), LoadUpTo(up + i, count)), count);
  });
}

// (1 + tanh(u)) / 2 is the sigmoid of 2u: no tanh, and no cancellation where gelu comes close to 0.
void Geglu(const float* gate, const float* up, uint32_t n, float* out) {
  const F32x16 linear = Set1(-0x1.26aec2p+1f),
               cubic = Set1(-0x1.a5a7dp-4f);  // -2 * log2(e) * sqrt(2 / pi), that * 0.044715
  ForEachVector(n, [&](uint32_t i, uint32_t count) {
    const F32x16 x = LoadUpTo(gate + i, count);
    const F32x16 exponent = Mul(x, Fma(Mul(x, x), cubic, linear));
    StoreUpTo(out + i, Mul(TimesSigmoid(x, exponent), LoadUpTo(up + i, count)), count);
  });
}

void RopePairs(float* x, uint32_t num_heads, uint32_t head_dim, uint32_t rope_dim, const float* cos, const float* sin) {
  const uint32_t num_pairs = rope_dim / 2;
  alignas(64) float even[16] = {}, odd[16] = {};
  for (uint32_t head = 0; head < num_heads; ++head, x += head_dim) {
    ForEachVector(num_pairs, [&](uint32_t i, uint32_t count) {
      float* const pairs = x + 2 * i;
      if (count == 16) {
        for (int j = 0; j < 16; ++j) {
          even[j] = pairs[2 * j];
          odd[j] = pairs[2 * j + 1];
        }
      } else {
        for (uint32_t j = 0; j < count; ++j) {
          even[j] = pairs[2 * j];
          odd[j] = pairs[2 * j + 1];
        }
      }
      const F32x16 x0 = Load(even), x1 = Load(odd);
      const F32x16 c = LoadUpTo(cos + i, count), s = LoadUpTo(sin + i, count);
      const F32x16 minus_x1_sin = Mul(Sub(Zero(), x1), s);
      Store(even, Fma(x0, c, minus_x1_sin));
      Store(odd, Fma(x0, s, Mul(x1, c)));
      for (uint32_t j = 0; j < count; ++j) {
        pairs[2 * j] = even[j];
        pairs[2 * j + 1] = odd[j];
      }
    });
  }
}

// A maximum of groups, then a look through the first group that has it.
uint32_t Argmax(const float* x, uint32_t n) {
  constexpr uint32_t kGroup = 512;
  float best = -std::numeric_limits<float>::infinity();
  uint32_t best_group = 0;
  for (uint32_t begin = 0; begin < n; begin += kGroup) {
    const float* const group = x + begin;
    const uint32_t size = std::min(kGroup, n - begin);
    F32x16 largest = Set1(-std::numeric_limits<float>::infinity());
    uint32_t i = 0;
    for (; i + 16 <= size; i += 16)
      largest = Max(Load(group + i), largest);  // The second operand where there is a NaN.
    float group_best = HorizontalMax(largest);
    for (; i < size; ++i) group_best = group[i] > group_best ? group[i] : group_best;
    if (group_best > best) {
      best = group_best;
      best_group = begin;
    }
  }
  for (uint32_t i = best_group; i < n; ++i) {
    if (x[i] == best) return i;
  }
  return 0;  // Nothing but NaN.
}

float ExpShifted(const float* x, uint32_t n, float scale, float* p) {
  F32x16 largest = Set1(-std::numeric_limits<float>::infinity());
  uint32_t tail = 0;
  for (; tail + 16 <= n; tail += 16) largest = Max(Load(x + tail), largest);
  float max = HorizontalMax(largest);
  for (; tail < n; ++tail) max = x[tail] > max ? x[tail] : max;

  const F32x16 factor = Set1(scale * kLog2E), shift = Set1(max);
  F32x16 sums = Zero();
  ForEachVector(n, [&](uint32_t i, uint32_t count) {
    F32x16 e = Exp2(Mul(Sub(LoadUpTo(x + i, count), shift), factor));
    if (count < 16) e = Select(LanesBelow(static_cast<int32_t>(count)), e, Zero());
    StoreUpTo(p + i, e, count);
    sums = Add(sums, e);
  });
  return HorizontalSum(sums);
}
