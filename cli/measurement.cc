#include "cli/measurement.h"

#include <algorithm>

namespace kvern::cli {

std::vector<TokenId> BenchTokens(size_t count, uint32_t vocab_size, uint64_t series) {
  // Multiplier and increment: Knuth, MMIX. The high bits are the random ones.
  uint64_t state = 0x9E3779B97F4A7C15u * (series + 1);
  std::vector<TokenId> tokens(vocab_size == 0 ? 0 : count);
  for (TokenId& token : tokens) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    token = static_cast<TokenId>((state >> 33) % vocab_size);
  }
  return tokens;
}

Spread SpreadOf(std::vector<double> samples) {
  if (samples.empty()) return {};
  std::sort(samples.begin(), samples.end());
  const size_t middle = samples.size() / 2;
  const double median = samples.size() % 2 == 1 ? samples[middle] : (samples[middle - 1] + samples[middle]) / 2;
  return {median, samples.front(), samples.back()};
}

uint64_t WeightsPerPromptToken(const ModelInfo& info) {
  const uint64_t q_width = uint64_t{info.num_heads} * info.head_dim;
  const uint64_t kv_width = uint64_t{info.num_kv_heads} * info.head_dim;
  const uint64_t attention = info.width * (2 * q_width + 2 * kv_width);
  const uint64_t feed_forward = 3 * uint64_t{info.width} * info.ffn_width;
  return info.num_layers * (attention + feed_forward);
}

}  // namespace kvern::cli
