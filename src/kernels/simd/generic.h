// Sixteen virtual lanes in plain C++: what every other target must equal, bit for bit (any NaN equals any NaN).
// This header is the reference of the vector operations; avx2.h, avx512.h and neon.h have the same functions without
// comments. Included inside a target's namespace, after simd/inline.h, simd/exact_fma.h and tensor/half.h.
#pragma once

inline constexpr int kLanes = 16;
inline constexpr int kNumRegisters = 4;  // F32x16 values to count on in registers: decides the tiles.

struct F32x16 {
  float v[16];
};
struct I32x16 {
  int32_t v[16];
};
// One truth value per lane.
struct Mask16 {
  bool v[16];
};

#define KVERN_LANES for (int i = 0; i < 16; ++i)

// ---- Memory. No alignment is needed anywhere.
KVERN_INLINE F32x16 Load(const float* p) {
  F32x16 r;
  KVERN_LANES r.v[i] = p[i];
  return r;
}
KVERN_INLINE I32x16 Load(const int32_t* p) {
  I32x16 r;
  KVERN_LANES r.v[i] = p[i];
  return r;
}
KVERN_INLINE void Store(float* p, F32x16 x) { KVERN_LANES p[i] = x.v[i]; }
KVERN_INLINE void Store(int32_t* p, I32x16 x) { KVERN_LANES p[i] = x.v[i]; }
// The first n lanes (0 <= n <= 16); memory behind them is not touched, the other lanes are +0.
KVERN_INLINE F32x16 LoadPartial(const float* p, uint32_t n) {
  F32x16 r;
  KVERN_LANES r.v[i] = static_cast<uint32_t>(i) < n ? p[i] : 0.0f;
  return r;
}
KVERN_INLINE void StorePartial(float* p, F32x16 x, uint32_t n) {
  KVERN_LANES if (static_cast<uint32_t>(i) < n) p[i] = x.v[i];
}
// F16 and BF16 to f32: exact. To F16: to nearest even, overflow to infinity, subnormals kept, NaN quiet.
KVERN_INLINE F32x16 LoadF16(const uint16_t* p) {
  F32x16 r;
  KVERN_LANES r.v[i] = F16ToF32(p[i]);
  return r;
}
KVERN_INLINE F32x16 LoadBf16(const uint16_t* p) {
  F32x16 r;
  KVERN_LANES r.v[i] = Bf16ToF32(p[i]);
  return r;
}
KVERN_INLINE void StoreF16(uint16_t* p, F32x16 x) { KVERN_LANES p[i] = F32ToF16(x.v[i]); }
// Of 16 pairs of BF16 the first ones or the second ones.
KVERN_INLINE F32x16 LoadBf16Of(const uint16_t* pairs, int which) {
  F32x16 r;
  KVERN_LANES r.v[i] = Bf16ToF32(pairs[2 * i + which]);
  return r;
}
// Of 16 pairs of 8-bit floats the first ones or the second ones, exactly: e5m2, and e4m3 times 2^-8. e5m2 is the upper
// half of an f16. e4m3 has no infinity and no NaN here: its largest codes are 480 * 2^-8.
KVERN_INLINE F32x16 LoadE5m2(const uint8_t* p, int which) {
  F32x16 r;
  KVERN_LANES r.v[i] = F16ToF32(static_cast<uint16_t>(p[2 * i + which] << 8));
  return r;
}
KVERN_INLINE F32x16 LoadE4m3(const uint8_t* p, int which) {
  F32x16 r;
  KVERN_LANES {
    const int code = p[2 * i + which];
    r.v[i] = F16ToF32(static_cast<uint16_t>((code & 0x80) << 8 | (code & 0x7f) << 7));
  }
  return r;
}
// Bytes, widened; and the low byte of every lane.
KVERN_INLINE I32x16 LoadI8(const int8_t* p) {
  I32x16 r;
  KVERN_LANES r.v[i] = p[i];
  return r;
}
KVERN_INLINE I32x16 LoadU8(const uint8_t* p) {
  I32x16 r;
  KVERN_LANES r.v[i] = p[i];
  return r;
}
KVERN_INLINE void StoreLowBytes(int8_t* p, I32x16 x) { KVERN_LANES p[i] = static_cast<int8_t>(x.v[i]); }
KVERN_INLINE void Prefetch(const void* p) { __builtin_prefetch(p, 0, 2); }  // Into L2.

// ---- f32 arithmetic, each operation rounded once to nearest even.
KVERN_INLINE F32x16 Set1(float x) {
  F32x16 r;
  KVERN_LANES r.v[i] = x;
  return r;
}
KVERN_INLINE F32x16 Zero() { return Set1(0.0f); }
KVERN_INLINE F32x16 Add(F32x16 a, F32x16 b) {
  KVERN_LANES a.v[i] += b.v[i];
  return a;
}
KVERN_INLINE F32x16 Sub(F32x16 a, F32x16 b) {
  KVERN_LANES a.v[i] -= b.v[i];
  return a;
}
KVERN_INLINE F32x16 Mul(F32x16 a, F32x16 b) {
  KVERN_LANES a.v[i] *= b.v[i];
  return a;
}
KVERN_INLINE F32x16 Div(F32x16 a, F32x16 b) {
  KVERN_LANES a.v[i] /= b.v[i];
  return a;
}
KVERN_INLINE F32x16 Sqrt(F32x16 a) {
  KVERN_LANES a.v[i] = std::sqrt(a.v[i]);
  return a;
}
// a * b + c, rounded once.
KVERN_INLINE F32x16 Fma(F32x16 a, F32x16 b, F32x16 c) {
  KVERN_LANES a.v[i] = ExactFma(a.v[i], b.v[i], c.v[i]);
  return a;
}
// a > b ? a : b, so b where either is NaN or both are zeros.
KVERN_INLINE F32x16 Max(F32x16 a, F32x16 b) {
  KVERN_LANES a.v[i] = a.v[i] > b.v[i] ? a.v[i] : b.v[i];
  return a;
}
// To the nearest integer, ties to even; keeps the sign of zero, infinities and NaN.
KVERN_INLINE F32x16 Round(F32x16 a) {
  KVERN_LANES {
    const float magnitude = std::fabs(a.v[i]);
    if (magnitude < 0x1p23f) a.v[i] = std::copysign((magnitude + 0x1p23f) - 0x1p23f, a.v[i]);
  }
  return a;
}

// ---- Lane masks. Comparisons with NaN are false.
KVERN_INLINE Mask16 Greater(F32x16 a, F32x16 b) {
  Mask16 r;
  KVERN_LANES r.v[i] = a.v[i] > b.v[i];
  return r;
}
KVERN_INLINE Mask16 Equal(F32x16 a, F32x16 b) {
  Mask16 r;
  KVERN_LANES r.v[i] = a.v[i] == b.v[i];
  return r;
}
KVERN_INLINE Mask16 Greater(I32x16 a, I32x16 b) {
  Mask16 r;
  KVERN_LANES r.v[i] = a.v[i] > b.v[i];
  return r;
}
// Lanes 0 .. n - 1; none for n <= 0, all for n >= 16.
KVERN_INLINE Mask16 LanesBelow(int32_t n) {
  Mask16 r;
  KVERN_LANES r.v[i] = i < n;
  return r;
}
// mask ? a : b
KVERN_INLINE F32x16 Select(Mask16 mask, F32x16 a, F32x16 b) {
  KVERN_LANES a.v[i] = mask.v[i] ? a.v[i] : b.v[i];
  return a;
}
KVERN_INLINE I32x16 Select(Mask16 mask, I32x16 a, I32x16 b) {
  KVERN_LANES a.v[i] = mask.v[i] ? a.v[i] : b.v[i];
  return a;
}
// Bit i is lane i.
KVERN_INLINE uint32_t MaskBits(Mask16 mask) {
  uint32_t r = 0;
  KVERN_LANES r |= static_cast<uint32_t>(mask.v[i]) << i;
  return r;
}

// ---- i32, wrapping.
KVERN_INLINE I32x16 Set1I32(int32_t x) {
  I32x16 r;
  KVERN_LANES r.v[i] = x;
  return r;
}
KVERN_INLINE I32x16 Add(I32x16 a, I32x16 b) {
  KVERN_LANES a.v[i] = static_cast<int32_t>(static_cast<uint32_t>(a.v[i]) + static_cast<uint32_t>(b.v[i]));
  return a;
}
KVERN_INLINE I32x16 Sub(I32x16 a, I32x16 b) {
  KVERN_LANES a.v[i] = static_cast<int32_t>(static_cast<uint32_t>(a.v[i]) - static_cast<uint32_t>(b.v[i]));
  return a;
}
KVERN_INLINE I32x16 Max(I32x16 a, I32x16 b) {
  KVERN_LANES a.v[i] = a.v[i] > b.v[i] ? a.v[i] : b.v[i];
  return a;
}
KVERN_INLINE I32x16 And(I32x16 a, I32x16 b) {
  KVERN_LANES a.v[i] &= b.v[i];
  return a;
}
KVERN_INLINE I32x16 Or(I32x16 a, I32x16 b) {
  KVERN_LANES a.v[i] |= b.v[i];
  return a;
}
KVERN_INLINE I32x16 Xor(I32x16 a, I32x16 b) {
  KVERN_LANES a.v[i] ^= b.v[i];
  return a;
}
template <int kBits>
KVERN_INLINE I32x16 ShiftLeft(I32x16 a) {
  KVERN_LANES a.v[i] = static_cast<int32_t>(static_cast<uint32_t>(a.v[i]) << kBits);
  return a;
}
// Zeros come in from above.
template <int kBits>
KVERN_INLINE I32x16 ShiftRight(I32x16 a) {
  KVERN_LANES a.v[i] = static_cast<int32_t>(static_cast<uint32_t>(a.v[i]) >> kBits);
  return a;
}
template <int kBits>
KVERN_INLINE I32x16 ShiftRightSigned(I32x16 a) {
  KVERN_LANES a.v[i] >>= kBits;
  return a;
}

// ---- Between the two.
KVERN_INLINE I32x16 BitsOf(F32x16 a) {
  I32x16 r;
  KVERN_LANES r.v[i] = std::bit_cast<int32_t>(a.v[i]);
  return r;
}
KVERN_INLINE F32x16 FloatFromBits(I32x16 a) {
  F32x16 r;
  KVERN_LANES r.v[i] = std::bit_cast<float>(a.v[i]);
  return r;
}
// To the nearest integer, ties to even; INT32_MIN for NaN and whatever does not fit.
KVERN_INLINE I32x16 ToI32(F32x16 a) {
  I32x16 r;
  a = Round(a);
  KVERN_LANES r.v[i] = a.v[i] >= -0x1p31f && a.v[i] < 0x1p31f ? static_cast<int32_t>(a.v[i]) : INT32_MIN;
  return r;
}
KVERN_INLINE F32x16 ToF32(I32x16 a) {
  F32x16 r;
  KVERN_LANES r.v[i] = static_cast<float>(a.v[i]);
  return r;
}

// ---- Over all lanes, by the fixed tree: lane i with lane i + 8, then + 4, + 2, + 1.
KVERN_INLINE float HorizontalSum(F32x16 a) {
  for (int w = 8; w > 0; w >>= 1) {
    for (int i = 0; i < w; ++i) a.v[i] = a.v[i] + a.v[i + w];
  }
  return a.v[0];
}
// Each step as Max(lane i, lane i + w).
KVERN_INLINE float HorizontalMax(F32x16 a) {
  for (int w = 8; w > 0; w >>= 1) {
    for (int i = 0; i < w; ++i) a.v[i] = a.v[i] > a.v[i + w] ? a.v[i] : a.v[i + w];
  }
  return a.v[0];
}
KVERN_INLINE int32_t HorizontalSum(I32x16 a) {
  uint32_t sum = 0;
  KVERN_LANES sum += static_cast<uint32_t>(a.v[i]);
  return static_cast<int32_t>(sum);
}
KVERN_INLINE int32_t HorizontalMax(I32x16 a) {
  int32_t max = a.v[0];
  KVERN_LANES max = a.v[i] > max ? a.v[i] : max;
  return max;
}

// Lanes i and i + kDistance (1, 2, 4 or 8), where i has no such bit, become their sum and their difference.
template <int kDistance>
KVERN_INLINE F32x16 Butterfly(F32x16 a) {
  F32x16 r;
  KVERN_LANES r.v[i] = (i & kDistance) == 0 ? a.v[i] + a.v[i + kDistance] : a.v[i - kDistance] - a.v[i];
  return r;
}
// The same of four vectors at once, into out[0] to out[3].
KVERN_INLINE void HorizontalSumOf4(const I32x16 (&a)[4], int32_t* out) {
  for (int i = 0; i < 4; ++i) out[i] = HorizontalSum(a[i]);
}
KVERN_INLINE void HorizontalMaxOf4(const I32x16 (&a)[4], int32_t* out) {
  for (int i = 0; i < 4; ++i) out[i] = HorizontalMax(a[i]);
}

// ---- Bytes, four to a lane.
struct Bytes64 {
  uint8_t v[64];
};
KVERN_INLINE Bytes64 LoadBytes(const uint8_t* p) {
  Bytes64 r;
  for (int i = 0; i < 64; ++i) r.v[i] = p[i];
  return r;
}
KVERN_INLINE void StoreBytes(uint8_t* p, Bytes64 x) {
  for (int i = 0; i < 64; ++i) p[i] = x.v[i];
}
KVERN_INLINE Bytes64 Or(Bytes64 a, Bytes64 b) {
  for (int i = 0; i < 64; ++i) a.v[i] |= b.v[i];
  return a;
}
// Bits kFrom .. kFrom + kCount - 1 of every byte, moved to kTo; the other bits are zero.
template <int kFrom, int kCount, int kTo>
KVERN_INLINE Bytes64 Field(Bytes64 a) {
  for (int i = 0; i < 64; ++i) a.v[i] = static_cast<uint8_t>(((a.v[i] >> kFrom) & ((1 << kCount) - 1)) << kTo);
  return a;
}
// Byte kIndex of every lane, widened.
template <int kIndex>
KVERN_INLINE I32x16 ByteOfLanes(Bytes64 a) {
  I32x16 r;
  KVERN_LANES r.v[i] = a.v[4 * i + kIndex];
  return r;
}

#undef KVERN_LANES
