#include "engine/kv_statistics.h"

#include <algorithm>
#include <cmath>

#include "kernels/kv_codec.h"
#include "kernels/scalar_math.h"

namespace kvern {
namespace {

constexpr double kMaxF16 = 65504;
constexpr uint32_t kSinkTokens = 4;
constexpr uint32_t kRecentTokens = 64;
constexpr uint32_t kSampledQueries = 32;
// Rounding to a grid of step s leaves an error of deviation s / sqrt(12).
const double kRootOf12 = std::sqrt(12.0);
constexpr double kInt8Levels = 127;
constexpr double kInt4Levels = 7;
// Expected largest magnitudes, in deviations: of 32 normal values (of one sign, as int4 has a code more below), and of
// a row of 64 to 256.
constexpr double kPeakOf32 = 2.07;
constexpr double kPeakOfRow = 2.8;

double SquareOf(double x) { return x * x; }

double Dot(std::span<const float> a, std::span<const float> b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += static_cast<double>(a[i]) * static_cast<double>(b[i]);
  return sum;
}

double DeviationFrom(double sum, double squares, double n) {
  return std::sqrt(std::max(0.0, squares / n - SquareOf(sum / n)));
}

}  // namespace

RowStatistics StatisticsOf(const HeadRows& rows) {
  RowStatistics s;
  s.min = s.max = static_cast<double>(rows.row(0)[0]);
  s.channel_means.assign(rows.head_dim, 0);
  double sum = 0, magnitudes = 0, squares = 0, norms = 0, norm_squares = 0, peaks = 0;
  for (uint32_t i = 0; i < rows.num_rows; ++i) {
    double row_squares = 0, peak = 0;
    const std::span<const float> row = rows.row(i);
    for (uint32_t c = 0; c < rows.head_dim; ++c) {
      const double x = static_cast<double>(row[c]);
      s.min = std::min(s.min, x);
      s.max = std::max(s.max, x);
      s.channel_means[c] += x;
      s.num_beyond_f16 += std::abs(x) > kMaxF16 ? 1 : 0;
      sum += x;
      magnitudes += std::abs(x);
      row_squares += x * x;
      peak = std::max(peak, std::abs(x));
    }
    squares += row_squares;
    norms += std::sqrt(row_squares);
    norm_squares += row_squares;
    peaks += peak;
  }
  const double num_rows = rows.num_rows;
  const double n = num_rows * rows.head_dim;
  s.mean = sum / n;
  s.deviation = DeviationFrom(sum, squares, n);
  s.mean_norm = norms / num_rows;
  s.norm_deviation = s.mean_norm > 0 ? DeviationFrom(norms, norm_squares, num_rows) / s.mean_norm : 0;
  s.outlier_ratio = magnitudes > 0 ? std::max(s.max, -s.min) / (magnitudes / n) : 0;
  s.mean_peak = peaks / num_rows;
  double mean_squares = 0;
  for (double& mean : s.channel_means) {
    mean /= num_rows;
    mean_squares += mean * mean;
  }
  s.mean_share = squares > 0 ? mean_squares * num_rows / squares : 0;
  return s;
}

double Lag1Of(const HeadRows& rows) {
  if (rows.num_rows < 3) return 0;
  const double n = rows.num_rows - 1;
  double total = 0;
  uint32_t num_channels = 0;
  for (uint32_t c = 0; c < rows.head_dim; ++c) {
    double sum_a = 0, sum_b = 0, squares_a = 0, squares_b = 0, products = 0;
    for (uint32_t i = 1; i < rows.num_rows; ++i) {
      const double a = static_cast<double>(rows.row(i - 1)[c]), b = static_cast<double>(rows.row(i)[c]);
      sum_a += a;
      sum_b += b;
      squares_a += a * a;
      squares_b += b * b;
      products += a * b;
    }
    const double deviations = DeviationFrom(sum_a, squares_a, n) * DeviationFrom(sum_b, squares_b, n);
    if (!(deviations > 0)) continue;
    total += (products / n - sum_a / n * sum_b / n) / deviations;
    ++num_channels;
  }
  return num_channels > 0 ? total / num_channels : 0;
}

double MeanCosine(const HeadRows& a, const HeadRows& b) {
  double total = 0;
  for (uint32_t i = 0; i < a.num_rows; ++i) {
    const double norms = std::sqrt(Dot(a.row(i), a.row(i)) * Dot(b.row(i), b.row(i)));
    if (norms > 0) total += Dot(a.row(i), b.row(i)) / norms;
  }
  return total / a.num_rows;
}

QueryAttention AttentionOf(std::span<const float> query, const HeadRows& keys, uint32_t first_visible,
                           uint32_t position, double scale) {
  const uint32_t num_visible = position + 1 - first_visible;
  std::vector<double> scores(num_visible);
  double max = -HUGE_VAL, sum = 0, squares = 0;
  for (uint32_t i = 0; i < num_visible; ++i) {
    scores[i] = scale * Dot(query, keys.row(first_visible + i));
    max = std::max(max, scores[i]);
    sum += scores[i];
    squares += scores[i] * scores[i];
  }
  double total = 0;
  for (const double score : scores) total += ExactExp(score - max);
  QueryAttention found;
  found.score_deviation = DeviationFrom(sum, squares, num_visible);
  for (uint32_t i = 0; i < num_visible; ++i) {
    const double weight = ExactExp(scores[i] - max) / total;
    found.entropy -= weight > 0 ? weight * ExactLog(weight) : 0;
    if (first_visible + i < kSinkTokens) found.sink_share += weight;
    if (first_visible + i + kRecentTokens > position) found.recent_share += weight;
  }
  return found;
}

KvStatistics::KvStatistics(const ModelConfig& config, uint32_t num_rows)
    : config_(config), num_rows_(num_rows), kv_width_(config.num_kv_heads * config.head_dim) {
  diagnosis_.num_layers = config.num_layers;
  diagnosis_.num_heads = config.num_heads;
  diagnosis_.num_kv_heads = config.num_kv_heads;
  diagnosis_.head_dim = config.head_dim;
  diagnosis_.num_tokens = num_rows;
  diagnosis_.heads.resize(size_t{config.num_layers} * config.num_kv_heads);
}

HeadRows KvStatistics::KvHead(const float* data, size_t stride, uint32_t head) const {
  return {data + size_t{head} * config_.head_dim, stride, num_rows_, config_.head_dim};
}

void KvStatistics::Observe(const AttentionRows& rows) {
  if (!rows.is_rotated) {
    CheckFinite('Q', rows, rows.q, rows.q_stride, config_.num_heads);
    CheckFinite('K', rows, rows.k, rows.kv_stride, config_.num_kv_heads);
    CheckFinite('V', rows, rows.v, rows.kv_stride, config_.num_kv_heads);
  }
  if (!diagnosis_.non_finite) rows.is_rotated ? Describe(rows) : Relate(rows);
  if (rows.is_rotated) ++layers_done_;
}

void KvStatistics::CheckFinite(char name, const AttentionRows& rows, const float* data, size_t stride,
                               uint32_t num_heads) {
  for (uint32_t i = 0; i < num_rows_ && !diagnosis_.non_finite; ++i) {
    const std::span<const float> row(data + i * stride, size_t{num_heads} * config_.head_dim);
    const auto it = std::ranges::find_if_not(row, [](float x) { return std::isfinite(x); });
    if (it == row.end()) continue;
    const auto head = static_cast<uint32_t>((it - row.begin()) / config_.head_dim);
    diagnosis_.non_finite = NonFiniteValue{name, rows.layer, head, i};
  }
}

void KvStatistics::Relate(const AttentionRows& rows) {
  for (uint32_t h = 0; h < config_.num_kv_heads; ++h) {
    HeadDiagnosis& head = diagnosis_.heads[size_t{rows.layer} * config_.num_kv_heads + h];
    const HeadRows k = KvHead(rows.k, rows.kv_stride, h), v = KvHead(rows.v, rows.kv_stride, h);
    head.k_lag1 = Lag1Of(k);
    for (uint32_t other = 0; other < config_.num_kv_heads; ++other) {
      if (other == h) continue;
      head.k_cosine_heads += MeanCosine(k, KvHead(rows.k, rows.kv_stride, other)) / (config_.num_kv_heads - 1);
      head.v_cosine_heads += MeanCosine(v, KvHead(rows.v, rows.kv_stride, other)) / (config_.num_kv_heads - 1);
    }
    if (rows.layer == 0) continue;
    head.k_cosine_layers = MeanCosine(k, KvHead(k_before_.data(), kv_width_, h));
    head.v_cosine_layers = MeanCosine(v, KvHead(v_before_.data(), kv_width_, h));
  }
  k_before_.resize(size_t{num_rows_} * kv_width_);
  v_before_.resize(size_t{num_rows_} * kv_width_);
  for (uint32_t i = 0; i < num_rows_; ++i) {
    std::copy_n(rows.k + i * rows.kv_stride, kv_width_, &k_before_[size_t{i} * kv_width_]);
    std::copy_n(rows.v + i * rows.kv_stride, kv_width_, &v_before_[size_t{i} * kv_width_]);
  }
}

void KvStatistics::Describe(const AttentionRows& rows) {
  for (uint32_t h = 0; h < config_.num_kv_heads; ++h) {
    HeadDiagnosis& head = diagnosis_.heads[size_t{rows.layer} * config_.num_kv_heads + h];
    head.k = StatisticsOf(KvHead(rows.k, rows.kv_stride, h));
    head.v = StatisticsOf(KvHead(rows.v, rows.kv_stride, h));
    DescribeAttention(rows, h, head);
  }
}

// Queries of the second three quarters of the text, evenly spread, so that sinks and the last 64 are apart.
void KvStatistics::DescribeAttention(const AttentionRows& rows, uint32_t kv_head, HeadDiagnosis& head) const {
  const HeadRows keys = KvHead(rows.k, rows.kv_stride, kv_head);
  const AttentionSpan span = {.window = config_.layer_groups[config_.layer_places[rows.layer].group].window};
  const uint32_t group = config_.num_heads / config_.num_kv_heads;
  const uint32_t first = num_rows_ / 4;
  const uint32_t count = std::min(kSampledQueries, num_rows_ - first);
  double query_norms = 0;
  for (uint32_t i = 0; i < count; ++i) {
    const uint32_t position = num_rows_ - 1 - static_cast<uint32_t>(uint64_t{i} * (num_rows_ - first) / count);
    const uint32_t first_visible = span.WindowBegin(position);
    for (uint32_t g = 0; g < group; ++g) {
      const size_t query_head = size_t{kv_head} * group + g;
      const std::span<const float> query(rows.q + position * rows.q_stride + query_head * config_.head_dim,
                                         config_.head_dim);
      const auto found = AttentionOf(query, keys, first_visible, position, static_cast<double>(rows.scale));
      head.entropy += found.entropy;
      head.sink_share += found.sink_share;
      head.recent_share += found.recent_share;
      head.score_deviation += found.score_deviation;
      query_norms += std::sqrt(Dot(query, query));
    }
  }
  const double n = static_cast<double>(count) * group;
  for (double* value : {&head.entropy, &head.sink_share, &head.recent_share, &head.score_deviation}) *value /= n;
  // A row's error of deviation e in each channel changes a product with q by e |q|.
  const double per_step = static_cast<double>(rows.scale) * query_norms / n / kRootOf12;
  const double rms = std::sqrt(SquareOf(head.k.mean) + SquareOf(head.k.deviation));
  const double centred = rms * std::sqrt(std::max(0.0, 1 - head.k.mean_share));
  const double peak = HasRotation(config_.head_dim) ? kPeakOfRow * centred : head.k.mean_peak;
  head.score_noise_int8 = per_step * peak / kInt8Levels;
  head.score_noise_int4 = per_step * kPeakOf32 * centred / kInt4Levels;
}

}  // namespace kvern
