#include "kernels/scalar_math.h"

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

namespace kvern {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

// A constant as the double next to it and the double next to the rest.
constexpr double kHalfPi = 0x1.921fb54442d18p+0, kHalfPiRest = 0x1.1a62633145c07p-54;
constexpr double kTwoOverPi = 0x1.45f306dc9c883p-1;
constexpr double kLn2 = 0x1.62e42fefa39efp-1, kLn2Rest = 0x1.abc9e3b39803fp-56;
constexpr double kLog2E = 0x1.71547652b82fep+0;

// Value of the polynomial with the given coefficients, lowest first, by Horner's rule.
template <int kCount>
double Polynomial(const double (&coefficients)[kCount], double x) {
  double sum = coefficients[kCount - 1];
  for (int i = kCount - 2; i >= 0; --i) sum = std::fma(sum, x, coefficients[i]);
  return sum;
}

// The Taylor series of sin(x) / x and cos(x) in x^2; the first terms left out are below 1e-17 for |x| <= 0.8.
constexpr double kSinSeries[] = {1.0,
                                 -1.0 / 6,
                                 1.0 / 120,
                                 -1.0 / 5040,
                                 1.0 / 362880,
                                 -1.0 / 39916800,
                                 1.0 / 6227020800,
                                 -1.0 / 1307674368000,
                                 1.0 / 355687428096000};
constexpr double kCosSeries[] = {1.0,
                                 -1.0 / 2,
                                 1.0 / 24,
                                 -1.0 / 720,
                                 1.0 / 40320,
                                 -1.0 / 3628800,
                                 1.0 / 479001600,
                                 -1.0 / 87178291200,
                                 1.0 / 20922789888000};
// exp(x) for |x| <= 0.35: the term x^14 / 14! is below 5e-18.
constexpr double kExpSeries[] = {
    1.0,        1.0,         1.0 / 2,      1.0 / 6,       1.0 / 24,       1.0 / 120,       1.0 / 720,
    1.0 / 5040, 1.0 / 40320, 1.0 / 362880, 1.0 / 3628800, 1.0 / 39916800, 1.0 / 479001600, 1.0 / 6227020800};
// atanh(f) / f - 1 in f^2, divided by f^2; for f^2 <= 0.0295 the first term left out is below 1e-18.
constexpr double kAtanhSeries[] = {1.0 / 3,  1.0 / 5,  1.0 / 7,  1.0 / 9,  1.0 / 11,
                                   1.0 / 13, 1.0 / 15, 1.0 / 17, 1.0 / 19, 1.0 / 21};

// sin(x + quadrant * pi / 2) of finite x.
double SinOfQuadrant(double x, int quadrant) {
  // While |x| <= 1e7, one round: n * kHalfPi is subtracted without any rounding, then n * kHalfPiRest with one. For
  // huge x the quotient is itself rounded, so what is left may need another round; the result is then still a sine of
  // something, the same on every machine.
  do {
    const double n = std::rint(x * kTwoOverPi);
    x = std::fma(-n, kHalfPiRest, std::fma(-n, kHalfPi, x));
    quadrant += static_cast<int>(n - 4 * std::rint(n * 0.25));
  } while (std::fabs(x) > 0.8);

  const double square = x * x;
  const double value = (quadrant & 1) != 0 ? Polynomial(kCosSeries, square) : x * Polynomial(kSinSeries, square);
  return (quadrant & 2) != 0 ? -value : value;
}

// 2^exponent for -1022 <= exponent <= 1023.
double PowerOfTwo(int exponent) { return std::bit_cast<double>(static_cast<uint64_t>(exponent + 1023) << 52); }

}  // namespace

double ExactSin(double x) { return std::isfinite(x) ? SinOfQuadrant(x, 0) : kNaN; }

double ExactCos(double x) { return std::isfinite(x) ? SinOfQuadrant(x, 1) : kNaN; }

double ExactExp(double x) {
  if (x != x) return kNaN;
  if (x < -745) return 0;
  if (x > 710) return kInfinity;
  const double n = std::rint(x * kLog2E);
  const double rest = std::fma(-n, kLn2Rest, std::fma(-n, kLn2, x));
  // The power of two goes in by halves: alone it may be no double, although the result is one.
  const int exponent = static_cast<int>(n);
  const int half = exponent / 2;
  return Polynomial(kExpSeries, rest) * PowerOfTwo(half) * PowerOfTwo(exponent - half);
}

double ExactLog(double x) {
  if (!(x >= 0)) return kNaN;
  if (x == 0) return -kInfinity;
  if (x == kInfinity) return kInfinity;
  int exponent = 0;
  if (x < 0x1p-1022) {
    x *= 0x1p54;
    exponent = -54;
  }
  // x = mantissa * 2^exponent with mantissa in [sqrt(1/2), sqrt(2)): near 1 nothing cancels.
  const uint64_t bits = std::bit_cast<uint64_t>(x);
  exponent += static_cast<int>(bits >> 52) - 1023;
  double mantissa = std::bit_cast<double>((bits & 0x000fffffffffffffull) | 0x3ff0000000000000ull);
  if (mantissa > 0x1.6a09e667f3bcdp+0) {
    mantissa *= 0.5;
    ++exponent;
  }
  // log(mantissa) = 2 atanh(f). With d = mantissa - 1 (exact) and f = d / (2 + d): 2f = d - f * d, so that only the
  // small terms carry a rounded quotient.
  const double d = mantissa - 1;
  const double f = d / (2 + d);
  const double square = f * f;
  const double small = std::fma(2 * f * square, Polynomial(kAtanhSeries, square), -f * d);
  const double n = exponent;
  return std::fma(n, kLn2, d + std::fma(n, kLn2Rest, small));
}

double ExactPow(double base, double exponent) { return ExactExp(exponent * ExactLog(base)); }

}  // namespace kvern
