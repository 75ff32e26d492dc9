// Keys and values in 8 bits with one scale and one zero point for a whole tensor: all keys of a layer, all its values.
//
// A recipe to compare codecs with, and no codec: a codec stores a row for itself, while here a later row that widens
// the range would have all earlier ones stored again.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "model/model.h"

namespace kvern {

struct TensorRange {
  float min = std::numeric_limits<float>::infinity();
  float max = -std::numeric_limits<float>::infinity();
  void Add(std::span<const float> values);
};

// scale = (max - min) / 255, zero = round(-min / scale); a value x is stored as clamp(round(x / scale) + zero, 0, 255)
// and read as (code - zero) * scale. All in f64; to nearest, ties to even. A tensor of one value is stored exactly.
class TensorInt8 {
 public:
  explicit TensorInt8(const TensorRange& range);
  // Each value as it is read back.
  void Round(std::span<float> values) const;

 private:
  double scale_;
  double zero_;
  float only_value_;  // Where scale_ is 0.
};

// The ranges of all layers of a model, and what they do to rows.
class PerTensorInt8 {
 public:
  explicit PerTensorInt8(const ModelConfig& config)
      : kv_width_(config.num_kv_heads * config.head_dim), ranges_(config.num_layers) {}

  // Widens the ranges of a layer by the first `num_rows` rows.
  void Add(const AttentionRows& rows, uint64_t num_rows);
  // Rounds rows by the ranges so far.
  KvEditor Editor() const;

 private:
  struct LayerRanges {
    TensorRange k, v;
  };
  size_t kv_width_;
  std::vector<LayerRanges> ranges_;
};

}  // namespace kvern
