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

// Top-k looks at so many logits at once.
constexpr size_t kTopKGroup = 32;

// Whether a logit of `group` is larger than `limit`. Without branches, so that compilers use vectors.
bool HasLarger(std::span<const float> group, float limit) {
  int found = 0;
  for (const float x : group) found |= x > limit ? 1 : 0;
  return found != 0;
}

}  // namespace

Sampler::Sampler(SamplingOptions options, uint32_t choice_index, const KernelTable& kernels, size_t prompt_tokens)
    : options_(std::move(options)), choice_index_(choice_index), kernels_(kernels), num_counted_(prompt_tokens) {}

Result<TokenId> Sampler::Sample(std::span<const float> raw_logits, std::span<const TokenId> tokens) {
  const std::span<const float> logits = Adjust(raw_logits, tokens);
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

std::span<const float> Sampler::Adjust(std::span<const float> logits, std::span<const TokenId> tokens) {
  const bool has_penalty = options_.repeat_penalty != 1 && options_.repeat_window > 0;
  const bool counts_tokens = options_.presence_penalty != 0 || options_.frequency_penalty != 0;
  if (options_.logit_bias.empty() && !has_penalty && !counts_tokens) return logits;
  adjusted_.assign(logits.begin(), logits.end());
  for (const auto& [token, bias] : options_.logit_bias) adjusted_[static_cast<size_t>(token)] += bias;
  if (has_penalty) PenaliseRepeats(tokens);
  if (counts_tokens) PenaliseOccurrences(tokens);
  return adjusted_;
}

// Source: arXiv:1909.05858 section 4.1.
void Sampler::PenaliseRepeats(std::span<const TokenId> tokens) {
  const auto seen = tokens.last(std::min<size_t>(tokens.size(), options_.repeat_window));
  recent_.assign(seen.begin(), seen.end());
  std::sort(recent_.begin(), recent_.end());
  recent_.erase(std::unique(recent_.begin(), recent_.end()), recent_.end());
  for (const TokenId token : recent_) {
    float& logit = adjusted_[static_cast<size_t>(token)];
    logit = logit > 0 ? logit / options_.repeat_penalty : logit * options_.repeat_penalty;
  }
}

// Each token is changed once, so the order of the map does not matter.
void Sampler::PenaliseOccurrences(std::span<const TokenId> tokens) {
  for (; num_counted_ < tokens.size(); ++num_counted_) ++counts_[tokens[num_counted_]];
  for (const auto& [token, count] : counts_) {
    adjusted_[static_cast<size_t>(token)] -=
        options_.presence_penalty + options_.frequency_penalty * static_cast<float>(count);
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
  // A heap of the best so far with the worst of them on top.
  ids_.clear();
  const auto offer = [&](TokenId id) {
    if (!std::isfinite(logits[static_cast<size_t>(id)])) return;
    if (ids_.size() == k) {
      if (!is_better(id, ids_.front())) return;
      std::pop_heap(ids_.begin(), ids_.end(), is_better);
      ids_.pop_back();
    }
    ids_.push_back(id);
    std::push_heap(ids_.begin(), ids_.end(), is_better);
  };
  for (size_t begin = 0; begin < logits.size(); begin += kTopKGroup) {
    const std::span<const float> group = logits.subspan(begin, std::min(kTopKGroup, logits.size() - begin));
    // Most groups hold nothing better; an equal one would have the higher id.
    if (ids_.size() == k && !HasLarger(group, logits[static_cast<size_t>(ids_.front())])) continue;
    for (size_t i = 0; i < group.size(); ++i) offer(static_cast<TokenId>(begin + i));
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
