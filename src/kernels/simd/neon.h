// Sixteen virtual lanes as four q registers (AArch64 Advanced SIMD). The operations are described in generic.h.
// Included inside a target's namespace and region, after <arm_neon.h> and simd/inline.h.
#pragma once

inline constexpr int kLanes = 16;
inline constexpr int kNumRegisters = 8;

// Lanes 0-3 in q0, 4-7 in q1, 8-11 in q2, 12-15 in q3.
struct F32x16 {
  float32x4_t q0, q1, q2, q3;
};
struct I32x16 {
  int32x4_t q0, q1, q2, q3;
};
// All bits of a lane are set or none.
struct Mask16 {
  uint32x4_t q0, q1, q2, q3;
};
// Four to a lane.
struct Bytes64 {
  uint8x16_t q0, q1, q2, q3;
};

// A function of one or two operands that applies an intrinsic to each register.
#define KVERN_UNARY(Result, Name, Type, intrinsic) \
  KVERN_INLINE Result Name(Type a) { return {intrinsic(a.q0), intrinsic(a.q1), intrinsic(a.q2), intrinsic(a.q3)}; }
#define KVERN_BINARY(Result, Name, Type, intrinsic)                                                      \
  KVERN_INLINE Result Name(Type a, Type b) {                                                             \
    return {intrinsic(a.q0, b.q0), intrinsic(a.q1, b.q1), intrinsic(a.q2, b.q2), intrinsic(a.q3, b.q3)}; \
  }

// ---- Memory.
KVERN_INLINE F32x16 Load(const float* p) {
  return {vld1q_f32(p), vld1q_f32(p + 4), vld1q_f32(p + 8), vld1q_f32(p + 12)};
}
KVERN_INLINE I32x16 Load(const int32_t* p) {
  return {vld1q_s32(p), vld1q_s32(p + 4), vld1q_s32(p + 8), vld1q_s32(p + 12)};
}
KVERN_INLINE void Store(float* p, F32x16 x) {
  vst1q_f32(p, x.q0);
  vst1q_f32(p + 4, x.q1);
  vst1q_f32(p + 8, x.q2);
  vst1q_f32(p + 12, x.q3);
}
KVERN_INLINE void Store(int32_t* p, I32x16 x) {
  vst1q_s32(p, x.q0);
  vst1q_s32(p + 4, x.q1);
  vst1q_s32(p + 8, x.q2);
  vst1q_s32(p + 12, x.q3);
}
KVERN_INLINE F32x16 LoadPartial(const float* p, uint32_t n) {
  float lanes[16] = {};
  std::memcpy(lanes, p, n * sizeof(float));
  return Load(lanes);
}
KVERN_INLINE void StorePartial(float* p, F32x16 x, uint32_t n) {
  float lanes[16];
  Store(lanes, x);
  std::memcpy(p, lanes, n * sizeof(float));
}
KVERN_INLINE float32x4_t LoadFourF16(const uint16_t* p) { return vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(p))); }
KVERN_INLINE F32x16 LoadF16(const uint16_t* p) {
  return {LoadFourF16(p), LoadFourF16(p + 4), LoadFourF16(p + 8), LoadFourF16(p + 12)};
}
KVERN_INLINE float32x4_t LoadFourBf16(const uint16_t* p) { return vreinterpretq_f32_u32(vshll_n_u16(vld1_u16(p), 16)); }
KVERN_INLINE F32x16 LoadBf16(const uint16_t* p) {
  return {LoadFourBf16(p), LoadFourBf16(p + 4), LoadFourBf16(p + 8), LoadFourBf16(p + 12)};
}
KVERN_INLINE void StoreFourF16(uint16_t* p, float32x4_t x) { vst1_u16(p, vreinterpret_u16_f16(vcvt_f16_f32(x))); }
KVERN_INLINE void StoreF16(uint16_t* p, F32x16 x) {
  StoreFourF16(p, x.q0);
  StoreFourF16(p + 4, x.q1);
  StoreFourF16(p + 8, x.q2);
  StoreFourF16(p + 12, x.q3);
}
KVERN_INLINE float32x4_t FourBf16Of(const uint16_t* pairs, int which) {
  const uint32x4_t x = vreinterpretq_u32_u16(vld1q_u16(pairs));
  return vreinterpretq_f32_u32(which == 0 ? vshlq_n_u32(x, 16) : vandq_u32(x, vdupq_n_u32(0xffff0000)));
}
KVERN_INLINE F32x16 LoadBf16Of(const uint16_t* pairs, int which) {
  return {FourBf16Of(pairs, which), FourBf16Of(pairs + 8, which), FourBf16Of(pairs + 16, which),
          FourBf16Of(pairs + 24, which)};
}
template <bool kIsE4m3>
KVERN_INLINE float32x4_t FourFp8(const uint8_t* p, int which) {
  uint16x4_t x = vreinterpret_u16_u8(vld1_u8(p));
  if (which == 0) x = vshl_n_u16(x, 8);
  if constexpr (kIsE4m3) x = vreinterpret_u16_s16(vshr_n_s16(vreinterpret_s16_u16(x), 1));
  return vcvt_f32_f16(vreinterpret_f16_u16(vand_u16(x, vdup_n_u16(kIsE4m3 ? 0xbf80 : 0xff00))));
}
KVERN_INLINE F32x16 LoadE5m2(const uint8_t* p, int which) {
  return {FourFp8<false>(p, which), FourFp8<false>(p + 8, which), FourFp8<false>(p + 16, which),
          FourFp8<false>(p + 24, which)};
}
KVERN_INLINE F32x16 LoadE4m3(const uint8_t* p, int which) {
  return {FourFp8<true>(p, which), FourFp8<true>(p + 8, which), FourFp8<true>(p + 16, which),
          FourFp8<true>(p + 24, which)};
}
KVERN_INLINE I32x16 LoadI8(const int8_t* p) {
  const int8x16_t bytes = vld1q_s8(p);
  const int16x8_t low = vmovl_s8(vget_low_s8(bytes)), high = vmovl_high_s8(bytes);
  return {vmovl_s16(vget_low_s16(low)), vmovl_high_s16(low), vmovl_s16(vget_low_s16(high)), vmovl_high_s16(high)};
}
KVERN_INLINE I32x16 LoadU8(const uint8_t* p) {
  const uint8x16_t bytes = vld1q_u8(p);
  const int16x8_t low = vreinterpretq_s16_u16(vmovl_u8(vget_low_u8(bytes)));
  const int16x8_t high = vreinterpretq_s16_u16(vmovl_high_u8(bytes));
  return {vmovl_s16(vget_low_s16(low)), vmovl_high_s16(low), vmovl_s16(vget_low_s16(high)), vmovl_high_s16(high)};
}
KVERN_INLINE void StoreLowBytes(int8_t* p, I32x16 x) {
  const int16x8_t low = vuzp1q_s16(vreinterpretq_s16_s32(x.q0), vreinterpretq_s16_s32(x.q1));
  const int16x8_t high = vuzp1q_s16(vreinterpretq_s16_s32(x.q2), vreinterpretq_s16_s32(x.q3));
  vst1q_s8(p, vuzp1q_s8(vreinterpretq_s8_s16(low), vreinterpretq_s8_s16(high)));
}
KVERN_INLINE void Prefetch(const void* p) { __builtin_prefetch(p, 0, 2); }

// ---- f32 arithmetic.
KVERN_INLINE F32x16 Set1(float x) {
  const float32x4_t v = vdupq_n_f32(x);
  return {v, v, v, v};
}
KVERN_INLINE F32x16 Zero() { return Set1(0.0f); }
KVERN_BINARY(F32x16, Add, F32x16, vaddq_f32)
KVERN_BINARY(F32x16, Sub, F32x16, vsubq_f32)
KVERN_BINARY(F32x16, Mul, F32x16, vmulq_f32)
KVERN_BINARY(F32x16, Div, F32x16, vdivq_f32)
KVERN_UNARY(F32x16, Sqrt, F32x16, vsqrtq_f32)
KVERN_INLINE F32x16 Fma(F32x16 a, F32x16 b, F32x16 c) {
  return {vfmaq_f32(c.q0, a.q0, b.q0), vfmaq_f32(c.q1, a.q1, b.q1), vfmaq_f32(c.q2, a.q2, b.q2),
          vfmaq_f32(c.q3, a.q3, b.q3)};
}
// vmaxq_f32 and vmaxnmq_f32 order zeros and treat NaN in other ways.
KVERN_INLINE float32x4_t MaxOfFour(float32x4_t a, float32x4_t b) { return vbslq_f32(vcgtq_f32(a, b), a, b); }
KVERN_BINARY(F32x16, Max, F32x16, MaxOfFour)
KVERN_UNARY(F32x16, Round, F32x16, vrndnq_f32)

// ---- Lane masks.
KVERN_BINARY(Mask16, Greater, F32x16, vcgtq_f32)
KVERN_BINARY(Mask16, Equal, F32x16, vceqq_f32)
KVERN_BINARY(Mask16, Greater, I32x16, vcgtq_s32)
KVERN_INLINE Mask16 LanesBelow(int32_t n) {
  const int32x4_t limit = vdupq_n_s32(n), lane = {0, 1, 2, 3};
  return {vcgtq_s32(limit, lane), vcgtq_s32(limit, vaddq_s32(lane, vdupq_n_s32(4))),
          vcgtq_s32(limit, vaddq_s32(lane, vdupq_n_s32(8))), vcgtq_s32(limit, vaddq_s32(lane, vdupq_n_s32(12)))};
}
KVERN_INLINE F32x16 Select(Mask16 mask, F32x16 a, F32x16 b) {
  return {vbslq_f32(mask.q0, a.q0, b.q0), vbslq_f32(mask.q1, a.q1, b.q1), vbslq_f32(mask.q2, a.q2, b.q2),
          vbslq_f32(mask.q3, a.q3, b.q3)};
}
KVERN_INLINE I32x16 Select(Mask16 mask, I32x16 a, I32x16 b) {
  return {vbslq_s32(mask.q0, a.q0, b.q0), vbslq_s32(mask.q1, a.q1, b.q1), vbslq_s32(mask.q2, a.q2, b.q2),
          vbslq_s32(mask.q3, a.q3, b.q3)};
}
KVERN_INLINE uint32_t MaskBits(Mask16 mask) {
  const uint32x4_t bits = {1, 2, 4, 8};
  return vaddvq_u32(vandq_u32(mask.q0, bits)) | vaddvq_u32(vandq_u32(mask.q1, bits)) << 4 |
         vaddvq_u32(vandq_u32(mask.q2, bits)) << 8 | vaddvq_u32(vandq_u32(mask.q3, bits)) << 12;
}

// ---- i32.
KVERN_INLINE I32x16 Set1I32(int32_t x) {
  const int32x4_t v = vdupq_n_s32(x);
  return {v, v, v, v};
}
KVERN_BINARY(I32x16, Add, I32x16, vaddq_s32)
KVERN_BINARY(I32x16, Sub, I32x16, vsubq_s32)
KVERN_BINARY(I32x16, Max, I32x16, vmaxq_s32)
KVERN_BINARY(I32x16, And, I32x16, vandq_s32)
KVERN_BINARY(I32x16, Or, I32x16, vorrq_s32)
KVERN_BINARY(I32x16, Xor, I32x16, veorq_s32)
template <int kBits>
KVERN_INLINE I32x16 ShiftLeft(I32x16 a) {
  return {vshlq_n_s32(a.q0, kBits), vshlq_n_s32(a.q1, kBits), vshlq_n_s32(a.q2, kBits), vshlq_n_s32(a.q3, kBits)};
}
template <int kBits>
KVERN_INLINE int32x4_t ShiftFourRight(int32x4_t a) {
  return vreinterpretq_s32_u32(vshrq_n_u32(vreinterpretq_u32_s32(a), kBits));
}
template <int kBits>
KVERN_INLINE I32x16 ShiftRight(I32x16 a) {
  return {ShiftFourRight<kBits>(a.q0), ShiftFourRight<kBits>(a.q1), ShiftFourRight<kBits>(a.q2),
          ShiftFourRight<kBits>(a.q3)};
}
template <int kBits>
KVERN_INLINE I32x16 ShiftRightSigned(I32x16 a) {
  return {vshrq_n_s32(a.q0, kBits), vshrq_n_s32(a.q1, kBits), vshrq_n_s32(a.q2, kBits), vshrq_n_s32(a.q3, kBits)};
}

// ---- Between the two.
KVERN_UNARY(I32x16, BitsOf, F32x16, vreinterpretq_s32_f32)
KVERN_UNARY(F32x16, FloatFromBits, I32x16, vreinterpretq_f32_s32)
// vcvtnq_s32_f32 makes 0 of NaN and INT32_MAX of what is too large.
KVERN_INLINE int32x4_t FourToI32(float32x4_t a) {
  return vbslq_s32(vcltq_f32(a, vdupq_n_f32(0x1p31f)), vcvtnq_s32_f32(a), vdupq_n_s32(INT32_MIN));
}
KVERN_UNARY(I32x16, ToI32, F32x16, FourToI32)
KVERN_UNARY(F32x16, ToF32, I32x16, vcvtq_f32_s32)

// ---- Over all lanes.
KVERN_INLINE float HorizontalSum(F32x16 a) {
  const float32x4_t by4 = vaddq_f32(vaddq_f32(a.q0, a.q2), vaddq_f32(a.q1, a.q3));
  const float32x2_t by2 = vadd_f32(vget_low_f32(by4), vget_high_f32(by4));
  return vget_lane_f32(by2, 0) + vget_lane_f32(by2, 1);
}
KVERN_INLINE float HorizontalMax(F32x16 a) {
  const float32x4_t by4 = MaxOfFour(MaxOfFour(a.q0, a.q2), MaxOfFour(a.q1, a.q3));
  const float32x4_t by2 = MaxOfFour(by4, vextq_f32(by4, by4, 2));
  return vgetq_lane_f32(MaxOfFour(by2, vextq_f32(by2, by2, 1)), 0);
}
template <int kDistance>
KVERN_INLINE float32x4_t ButterflyOfFour(float32x4_t a) {
  const float32x4_t b = kDistance == 1 ? vrev64q_f32(a) : vextq_f32(a, a, 2);
  const uint32x4_t upper = {0, kDistance == 1 ? ~0u : 0u, kDistance == 2 ? ~0u : 0u, ~0u};
  return vbslq_f32(upper, vsubq_f32(b, a), vaddq_f32(a, b));
}
template <int kDistance>
KVERN_INLINE F32x16 Butterfly(F32x16 a) {
  if constexpr (kDistance == 8) {
    return {vaddq_f32(a.q0, a.q2), vaddq_f32(a.q1, a.q3), vsubq_f32(a.q0, a.q2), vsubq_f32(a.q1, a.q3)};
  } else if constexpr (kDistance == 4) {
    return {vaddq_f32(a.q0, a.q1), vsubq_f32(a.q0, a.q1), vaddq_f32(a.q2, a.q3), vsubq_f32(a.q2, a.q3)};
  } else {
    return {ButterflyOfFour<kDistance>(a.q0), ButterflyOfFour<kDistance>(a.q1), ButterflyOfFour<kDistance>(a.q2),
            ButterflyOfFour<kDistance>(a.q3)};
  }
}
KVERN_INLINE int32x4_t SumByFour(I32x16 a) { return vaddq_s32(vaddq_s32(a.q0, a.q1), vaddq_s32(a.q2, a.q3)); }
KVERN_INLINE int32x4_t MaxByFour(I32x16 a) { return vmaxq_s32(vmaxq_s32(a.q0, a.q1), vmaxq_s32(a.q2, a.q3)); }
KVERN_INLINE int32_t HorizontalSum(I32x16 a) { return vaddvq_s32(SumByFour(a)); }
KVERN_INLINE int32_t HorizontalMax(I32x16 a) { return vmaxvq_s32(MaxByFour(a)); }
KVERN_INLINE void HorizontalSumOf4(const I32x16 (&a)[4], int32_t* out) {
  vst1q_s32(out,
            vpaddq_s32(vpaddq_s32(SumByFour(a[0]), SumByFour(a[1])), vpaddq_s32(SumByFour(a[2]), SumByFour(a[3]))));
}
KVERN_INLINE void HorizontalMaxOf4(const I32x16 (&a)[4], int32_t* out) {
  vst1q_s32(out,
            vpmaxq_s32(vpmaxq_s32(MaxByFour(a[0]), MaxByFour(a[1])), vpmaxq_s32(MaxByFour(a[2]), MaxByFour(a[3]))));
}

// ---- Bytes.
KVERN_INLINE Bytes64 LoadBytes(const uint8_t* p) {
  return {vld1q_u8(p), vld1q_u8(p + 16), vld1q_u8(p + 32), vld1q_u8(p + 48)};
}
KVERN_INLINE void StoreBytes(uint8_t* p, Bytes64 x) {
  vst1q_u8(p, x.q0);
  vst1q_u8(p + 16, x.q1);
  vst1q_u8(p + 32, x.q2);
  vst1q_u8(p + 48, x.q3);
}
KVERN_BINARY(Bytes64, Or, Bytes64, vorrq_u8)
template <int kFrom, int kCount, int kTo>
KVERN_INLINE uint8x16_t FieldOfSixteen(uint8x16_t a) {
  if constexpr (kFrom > kTo) a = vshrq_n_u8(a, kFrom - kTo);
  if constexpr (kFrom < kTo) a = vshlq_n_u8(a, kTo - kFrom);
  if constexpr (kTo == 0 && kFrom + kCount == 8) return a;  // The shift has left nothing else.
  return vandq_u8(a, vdupq_n_u8(((1 << kCount) - 1) << kTo));
}
template <int kFrom, int kCount, int kTo>
KVERN_INLINE Bytes64 Field(Bytes64 a) {
  return {FieldOfSixteen<kFrom, kCount, kTo>(a.q0), FieldOfSixteen<kFrom, kCount, kTo>(a.q1),
          FieldOfSixteen<kFrom, kCount, kTo>(a.q2), FieldOfSixteen<kFrom, kCount, kTo>(a.q3)};
}
template <int kIndex>
KVERN_INLINE int32x4_t ByteOfFour(uint8x16_t a) {
  uint32x4_t x = vreinterpretq_u32_u8(a);
  if constexpr (kIndex > 0) x = vshrq_n_u32(x, 8 * kIndex);
  return vreinterpretq_s32_u32(vandq_u32(x, vdupq_n_u32(0xff)));
}
template <int kIndex>
KVERN_INLINE I32x16 ByteOfLanes(Bytes64 a) {
  return {ByteOfFour<kIndex>(a.q0), ByteOfFour<kIndex>(a.q1), ByteOfFour<kIndex>(a.q2), ByteOfFour<kIndex>(a.q3)};
}

#undef KVERN_UNARY
#undef KVERN_BINARY
