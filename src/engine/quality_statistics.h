// The arithmetic of quality: one row of logits against another, and many rows summed up.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/kernel_table.h"
#include "kvern/quality.h"

namespace kvern {

// What one token's distribution lost.
struct RowDivergence {
  double kld = 0;  // Nats, >= 0; infinite where the candidate is not finite.
  double delta_p = 0;
  double delta_nll = 0;
  double reference_nll = 0;
  bool is_same_top = false;
};

// Compares the distributions softmax(reference) and softmax(candidate); `target` is the token that follows. Exactly 0
// for equal logits. `scratch` has room for one row and is overwritten. `reference` must be finite.
RowDivergence CompareRows(std::span<const float> reference, std::span<const float> candidate, TokenId target,
                          const KernelTable& kernels, std::span<float> scratch);

// Mean and its standard error: sample deviation / sqrt(n); an error of 0 for fewer than two samples.
Estimate MeanOf(std::span<const double> samples);
// Root of the mean square; its error to first order.
Estimate RootMeanSquareOf(std::span<const double> samples);
// Share of `count` in `total` and its error sqrt(p (1 - p) / (n - 1)).
Estimate ShareOf(uint64_t count, uint64_t total);
// Smallest sample that at least a share `q` of all reach from below (nearest rank); half the distance between the ranks
// one deviation of the binomial count below and above as its error. `sorted` ascending, not empty.
Estimate QuantileOf(std::span<const double> sorted, double q);

QualityNumbers Summarise(std::span<const RowDivergence> rows);

// Borders of the position buckets of contexts up to `num_tokens`: 0, 256, 512, 1024, ... doubling.
std::vector<uint32_t> BucketBorders(uint32_t num_tokens);

}  // namespace kvern
