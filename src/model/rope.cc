#include "model/rope.h"

#include "base/check.h"
#include "kernels/scalar_math.h"

namespace kvern {

RopeAngles::RopeAngles(const RopeConfig& config) {
  const uint32_t num_pairs = config.dim / 2;
  KVERN_CHECK(config.factors.empty() || config.factors.size() == num_pairs);
  frequencies_.reserve(num_pairs);
  for (uint32_t i = 0; i < num_pairs; ++i) {
    double frequency = static_cast<float>(ExactPow(config.base, -2.0 * i / config.dim));
    if (!config.factors.empty()) frequency = static_cast<float>(frequency / static_cast<double>(config.factors[i]));
    frequencies_.push_back(frequency / config.linear_factor);
  }
}

void RopeAngles::Fill(uint32_t position, std::span<float> cos, std::span<float> sin) const {
  KVERN_DCHECK(cos.size() == num_pairs() && sin.size() == num_pairs());
  for (size_t i = 0; i < frequencies_.size(); ++i) {
    const double angle = position * frequencies_[i];
    cos[i] = static_cast<float>(ExactCos(angle));
    sin[i] = static_cast<float>(ExactSin(angle));
  }
}

}  // namespace kvern
