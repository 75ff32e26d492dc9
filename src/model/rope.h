// Rotary position embedding: the angles. Source: arXiv:2104.09864.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "model/model_config.h"

namespace kvern {

// Angle of pair i at position p: p / linear_factor * base^(-2i / dim) / factors[i], the frequency rounded to f32 first
// as the models' training code does, the rest in double with the project's own sine and cosine (docs/numerics.md).
class RopeAngles {
 public:
  explicit RopeAngles(const RopeConfig& config);
  uint32_t num_pairs() const { return static_cast<uint32_t>(frequencies_.size()); }
  // cos, sin: [num_pairs] for `position`.
  void Fill(uint32_t position, std::span<float> cos, std::span<float> sin) const;

 private:
  std::vector<double> frequencies_;  // Radians per position.
};

}  // namespace kvern
