#include "engine/sampler.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <string>
#include <utility>

#include "engine/philox.h"

namespace kvern {
namespace {

// Below this the draw is greedy but for near ties, and the scale of the exponent stays finite.
constexpr float kMinTemperature = 1e-6f;

}  // namespace

Sampler::Sampler(SamplingOptions options, uint32_t choice_index, const KernelTable& kernels)
    : options_(std::move(options)), choice_index_(choice_index), kernels_(kernels) {}

Result<TokenId> Sampler::Sample(std::span<float> logits, std::span<const TokenId> tokens) {
  AddBias(logits);
  PenaliseRepeats(logits, tokens);
  if (options_.temperature == 0) return Greedy(logits);

  const bool has_top_k = options_.top_k > 0 && options_.top_k < logits.size();
  if (has_top_k) {
    CollectTopK(logits, options_.top_k);
  } else {
    CollectAll(logits);
  }
  if (ids_.empty()) return Greedy(logits);  // Says what is wrong.

  const float scale = 1.0f / std::max(options_.temperature, kMinTemperature);
  const float sum = kernels_.exp_shifted(values_.data(), static_cast<uint32_t>(values_.size()), scale, values_.data());
  if (options_.top_p < 1) KeepTopP(sum);
  if (options_.min_p > 0) KeepMinP();

  double total = 0;
  for (const float p : values_) total += static_cast<double>(p);
  const double point = UniformAt(options_.seed, choice_index_, tokens.size()) * total;
  double reached = 0;
  size_t drawn = 0;
  for (size_t i = 0; i < values_.size(); ++i) {
    if (values_[i] == 0) continue;
    drawn = i;
    reached += static_cast<double>(values_[i]);
    if (point < reached) break;
  }
  return ids_[drawn];
}

void Sampler::AddBias(std::span<float> logits) const {
  for (const auto& [token, bias] : options_.logit_bias) logits[static_cast<size_t>(token)] += bias;
}

// Source: arXiv:1909.05858 section 4.1.
void Sampler::PenaliseRepeats(std::span<float> logits, std::span<const TokenId> tokens) {
  if (options_.repeat_penalty == 1 || options_.repeat_window == 0) return;
  const auto seen = tokens.last(std::min<size_t>(tokens.size(), options_.repeat_window));
  recent_.assign(seen.begin(), seen.end());
  std::sort(recent_.begin(), recent_.end());
  recent_.erase(std::unique(recent_.begin(), recent_.end()), recent_.end());
  for (const TokenId token : recent_) {
    float& logit = logits[static_cast<size_t>(token)];
    logit = logit > 0 ? logit / options_.repeat_penalty : logit * options_.repeat_penalty;
  }
}

Result<TokenId> Sampler::Greedy(std::span<const float> logits) const {
  const uint32_t best = kernels_.argmax(logits.data(), static_cast<uint32_t>(logits.size()));
  if (std::isfinite(logits[best])) return static_cast<TokenId>(best);
  // An infinite logit won, or nothing did.
  size_t found = logits.size();
  for (size_t i = 0; i < logits.size(); ++i) {
    if (std::isfinite(logits[i]) && (found == logits.size() || logits[i] > logits[found])) found = i;
  }
  if (found == logits.size()) {
    return Status::Corruption("the model produced no finite logit among " + std::to_string(logits.size()));
  }
  return static_cast<TokenId>(found);
}

void Sampler::CollectAll(std::span<const float> logits) {
  ids_.resize(logits.size());
  values_.resize(logits.size());
  size_t count = 0;
  for (size_t i = 0; i < logits.size(); ++i) {
    ids_[count] = static_cast<TokenId>(i);
    values_[count] = logits[i];
    count += std::isfinite(logits[i]) ? 1 : 0;
  }
  ids_.resize(count);
  values_.resize(count);
}

void Sampler::CollectTopK(std::span<const float> logits, uint32_t k) {
  const auto is_better = [logits](TokenId a, TokenId b) {
    const float x = logits[static_cast<size_t>(a)], y = logits[static_cast<size_t>(b)];
    return x > y || (x == y && a < b);
  };
  // A heap of the best so far with the worst of them on top: most tokens are one comparison.
  ids_.clear();
  for (size_t i = 0; i < logits.size(); ++i) {
    if (!std::isfinite(logits[i])) continue;
    const auto id = static_cast<TokenId>(i);
    if (ids_.size() == k) {
      if (!is_better(id, ids_.front())) continue;
      std::pop_heap(ids_.begin(), ids_.end(), is_better);
      ids_.pop_back();
    }
    ids_.push_back(id);
    std::push_heap(ids_.begin(), ids_.end(), is_better);
  }
  std::sort_heap(ids_.begin(), ids_.end(), is_better);
  values_.resize(ids_.size());
  for (size_t i = 0; i < ids_.size(); ++i) values_[i] = logits[static_cast<size_t>(ids_[i])];
}

// Keeps the fewest candidates whose probabilities reach top_p, best first. Source: arXiv:1904.09751.
void Sampler::KeepTopP(double sum) {
  const double top_p = static_cast<double>(options_.top_p);
  const double wanted = top_p * sum;
  // All candidates below `unreached` together have less than half of the 1 - top_p that may be left out, so none of
  // them is ever kept, whatever rounding does: only the others are looked at.
  const double unreached = 0.5 * (1 - top_p) * sum / static_cast<double>(ids_.size());
  // One word for each of them, so that the best come first in ascending order: bits of values >= 0 are in their order.
  order_.clear();
  for (size_t i = 0; i < ids_.size(); ++i) {
    if (static_cast<double>(values_[i]) < unreached) continue;
    const uint64_t worse_is_larger = ~std::bit_cast<uint32_t>(values_[i]);
    order_.push_back(worse_is_larger << 32 | static_cast<uint32_t>(ids_[i]));
  }
  std::sort(order_.begin(), order_.end());
  ids_.clear();
  values_.clear();
  double reached = 0;
  for (const uint64_t word : order_) {
    if (!ids_.empty() && reached >= wanted) break;
    ids_.push_back(static_cast<TokenId>(word & 0xffffffff));
    values_.push_back(std::bit_cast<float>(~static_cast<uint32_t>(word >> 32)));
    reached += static_cast<double>(values_.back());
  }
}

// The most likely token has the value exp(0) = 1, so values compare with min_p as they are. Source: arXiv:2407.01082.
void Sampler::KeepMinP() {
  size_t num_kept = 0;
  for (size_t i = 0; i < ids_.size(); ++i) {
    if (values_[i] < options_.min_p) continue;
    ids_[num_kept] = ids_[i];
    values_[num_kept++] = values_[i];
  }
  ids_.resize(num_kept);
  values_.resize(num_kept);
}

}  // namespace kvern
