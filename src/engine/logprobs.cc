#include "engine/logprobs.h"

#include <algorithm>

#include "kernels/scalar_math.h"

namespace kvern {

void LogprobReader::Read(std::span<const float> logits, TokenId drawn) {
  const auto n = static_cast<uint32_t>(logits.size());
  const double max = static_cast<double>(logits[kernels_.argmax(logits.data(), n)]);
  powers_.resize(n);
  const double log_sum = ExactLog(static_cast<double>(kernels_.exp_shifted(logits.data(), n, 1.0f, powers_.data())));
  const auto logprob = [&](size_t i) { return static_cast<float>(static_cast<double>(logits[i]) - max - log_sum); };
  drawn_ = logprob(static_cast<size_t>(drawn));

  // The best so far in order, by logit; most tokens are worse than all of them.
  top_.clear();
  if (num_top_ == 0) return;
  for (size_t i = 0; i < n; ++i) {
    if (top_.size() == num_top_ && !(logits[i] > top_.back().logprob)) continue;
    if (top_.size() == num_top_) top_.pop_back();
    const auto place = std::ranges::find_if(top_, [&](const TokenLogprob& t) { return logits[i] > t.logprob; });
    top_.insert(place, {.token = static_cast<TokenId>(i), .logprob = logits[i]});
  }
  for (TokenLogprob& t : top_) t.logprob = logprob(static_cast<size_t>(t.token));
}

}  // namespace kvern
