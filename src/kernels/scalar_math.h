// sin, cos, exp and log with the same bits on every machine: plain IEEE operations in a fixed order, no libm beyond
// sqrt, fma and rint. For setting up tables, sampling and scoring; not for inner loops.
#pragma once

namespace kvern {

// |error| <= 1e-12 for |x| <= 1e7 (argument reduction in extended steps). NaN for infinite x.
double ExactSin(double x);
double ExactCos(double x);
// Relative error <= 1e-14; +0 below -745, +inf above 709.79.
double ExactExp(double x);
// Relative error <= 1e-14 (absolute near 1); -inf for 0, NaN for negative x.
double ExactLog(double x);
// base^exponent for base > 0, as ExactExp(exponent * ExactLog(base)).
double ExactPow(double base, double exponent);

}  // namespace kvern
