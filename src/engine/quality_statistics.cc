#include "engine/quality_statistics.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "base/check.h"
#include "kernels/scalar_math.h"

namespace kvern {
namespace {

constexpr uint32_t kFirstBucketTokens = 256;

// ln of the sum of exp(row); `exps` gets exp(row - max) and `sum` their sum.
struct Softmax {
  uint32_t top;
  double log_sum;
  double sum;
};
Softmax SoftmaxOf(std::span<const float> row, const KernelTable& kernels, std::span<float> exps) {
  const auto n = static_cast<uint32_t>(row.size());
  const uint32_t top = kernels.argmax(row.data(), n);
  const double sum = static_cast<double>(kernels.exp_shifted(row.data(), n, 1.0f, exps.data()));
  return {top, static_cast<double>(row[top]) + ExactLog(sum), sum};
}

// sum of weights[i] * (a[i] - b[i]), in lanes so that the additions do not wait for each other.
double WeightedDifference(std::span<const float> weights, std::span<const float> a, std::span<const float> b) {
  constexpr size_t kLanes = 8;
  std::array<double, kLanes> sums = {};
  const size_t whole = weights.size() / kLanes * kLanes;
  for (size_t i = 0; i < whole; i += kLanes) {
    for (size_t lane = 0; lane < kLanes; ++lane) {
      const size_t at = i + lane;
      sums[lane] += static_cast<double>(weights[at]) * (static_cast<double>(a[at]) - static_cast<double>(b[at]));
    }
  }
  for (size_t i = whole; i < weights.size(); ++i) {
    sums[0] += static_cast<double>(weights[i]) * (static_cast<double>(a[i]) - static_cast<double>(b[i]));
  }
  double total = 0;
  for (const double sum : sums) total += sum;
  return total;
}

}  // namespace

// KLD = sum p (ln p - ln q) = sum p (a - b) - (ln sum exp a - ln sum exp b), with p = exp(a) / sum exp a.
RowDivergence CompareRows(std::span<const float> reference, std::span<const float> candidate, TokenId target,
                          const KernelTable& kernels, std::span<float> scratch) {
  KVERN_CHECK(reference.size() == candidate.size() && scratch.size() >= reference.size());
  const std::span<float> exps = scratch.first(reference.size());
  const auto at = static_cast<size_t>(target);
  const Softmax b = SoftmaxOf(candidate, kernels, exps);
  const Softmax a = SoftmaxOf(reference, kernels, exps);
  const double a_log_p = static_cast<double>(reference[at]) - a.log_sum;
  const double b_log_p = static_cast<double>(candidate[at]) - b.log_sum;
  const double kld = WeightedDifference(exps, reference, candidate) / a.sum - (a.log_sum - b.log_sum);

  RowDivergence row;
  row.reference_nll = -a_log_p;
  if (!std::isfinite(kld) || !std::isfinite(b_log_p)) {
    row.kld = row.delta_nll = std::numeric_limits<double>::infinity();
    row.delta_p = -ExactExp(a_log_p);
    return row;
  }
  row.kld = std::max(kld, 0.0);  // Rounding may leave a trace below 0.
  row.delta_p = ExactExp(b_log_p) - ExactExp(a_log_p);
  row.delta_nll = a_log_p - b_log_p;
  row.is_same_top = a.top == b.top;
  return row;
}

Estimate MeanOf(std::span<const double> samples) {
  if (samples.empty()) return {};
  const auto n = static_cast<double>(samples.size());
  double sum = 0;
  for (const double sample : samples) sum += sample;
  const double mean = sum / n;
  if (samples.size() < 2 || !std::isfinite(mean)) return {mean, 0};
  double squares = 0;
  for (const double sample : samples) squares += (sample - mean) * (sample - mean);
  return {mean, std::sqrt(squares / (n - 1) / n)};
}

Estimate RootMeanSquareOf(std::span<const double> samples) {
  std::vector<double> squares(samples.begin(), samples.end());
  for (double& square : squares) square *= square;
  const Estimate mean = MeanOf(squares);
  const double root = std::sqrt(mean.value);
  return {root, root > 0 ? mean.error / (2 * root) : 0};
}

Estimate ShareOf(uint64_t count, uint64_t total) {
  if (total == 0) return {};
  const double n = static_cast<double>(total);
  const double share = static_cast<double>(count) / n;
  return {share, total < 2 ? 0 : std::sqrt(share * (1 - share) / (n - 1))};
}

Estimate QuantileOf(std::span<const double> sorted, double q) {
  KVERN_CHECK(!sorted.empty());
  const auto n = static_cast<double>(sorted.size());
  const auto sample = [&](double rank) { return sorted[static_cast<size_t>(std::clamp(std::ceil(rank), 1.0, n)) - 1]; };
  const double deviation = std::sqrt(n * q * (1 - q));
  const double below = sample(q * n - deviation);
  const double above = sample(q * n + deviation);
  return {sample(q * n), std::isfinite(above) ? (above - below) / 2 : 0};
}

QualityNumbers Summarise(std::span<const RowDivergence> rows) {
  QualityNumbers numbers;
  numbers.num_tokens = rows.size();
  if (rows.empty()) return numbers;
  const auto column = [&](double RowDivergence::*member) {
    std::vector<double> values;
    values.reserve(rows.size());
    for (const RowDivergence& row : rows) values.push_back(row.*member);
    return values;
  };
  std::vector<double> klds = column(&RowDivergence::kld);
  std::ranges::sort(klds);
  numbers.kld_mean = MeanOf(klds);
  numbers.kld_p50 = QuantileOf(klds, 0.5);
  numbers.kld_p99 = QuantileOf(klds, 0.99);
  numbers.kld_max = klds.back();
  const auto num_same = std::ranges::count_if(rows, [](const RowDivergence& row) { return row.is_same_top; });
  numbers.same_top = ShareOf(static_cast<uint64_t>(num_same), rows.size());
  numbers.rms_delta_p = RootMeanSquareOf(column(&RowDivergence::delta_p));
  numbers.nll_difference = MeanOf(column(&RowDivergence::delta_nll));
  numbers.reference_nll = MeanOf(column(&RowDivergence::reference_nll));
  return numbers;
}

std::vector<uint32_t> BucketBorders(uint32_t num_tokens) {
  std::vector<uint32_t> borders = {0};
  for (uint64_t border = kFirstBucketTokens; borders.back() < num_tokens; border *= 2) {
    borders.push_back(static_cast<uint32_t>(std::min<uint64_t>(border, num_tokens)));
  }
  return borders;
}

}  // namespace kvern
