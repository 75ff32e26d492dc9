// The exponential that softmax and swiglu share. Included inside a target's namespace after its simd header.
#pragma once

inline constexpr float kLog2E = 0x1.715476p+0f;

// 2^x for x < 127, within 2 ulp; +0 unless x > -100, so that nothing becomes subnormal and masked scores (-inf) count
// nothing at all; NaN stays NaN. Exactly 1 at 0.
//   t = x + 1.5 * 2^23;  f = x - (t - 1.5 * 2^23), |f| <= 1/2;  a polynomial in f by fma, times 2^(integer in t)
// The constant holds 126 besides, which makes the low bits of t an exponent as they are; the polynomial is taken twice
// (its coefficients are), for the 1 that is missing. Neither changes a rounding.
// Source of the polynomial: Cephes, exp2f.
KVERN_INLINE F32x16 Exp2(F32x16 x) {
  const F32x16 magic = Set1(12582912.0f + 126.0f);
  const F32x16 t = Add(x, magic);
  const F32x16 f = Sub(x, Sub(t, magic));
  F32x16 p = Fma(Set1(2 * 1.535336188319500e-4f), f, Set1(2 * 1.339887440266574e-3f));
  p = Fma(p, f, Set1(2 * 9.618437357674640e-3f));
  p = Fma(p, f, Set1(2 * 5.550332471162809e-2f));
  p = Fma(p, f, Set1(2 * 2.402264791363012e-1f));
  p = Fma(p, f, Set1(2 * 6.931472028550421e-1f));
  p = Fma(p, f, Set1(2.0f));
  // A product, where an addition to the exponent would do: NaN times whatever its bits make of the power is NaN.
  const F32x16 power = FloatFromBits(ShiftLeft<23>(BitsOf(t)));
  // -0x1.8ffffep+6 is the float next to -100: "below it" is "not above -100" for all but NaN.
  return Select(Greater(Set1(-0x1.8ffffep+6f), x), Zero(), Mul(p, power));
}
