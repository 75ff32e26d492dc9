#include "engine/per_tensor_int8.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace kvern {
namespace {

constexpr double kMaxCode = 255;

}  // namespace

void TensorRange::Add(std::span<const float> values) {
  for (const float x : values) {
    min = std::min(min, x);
    max = std::max(max, x);
  }
}

TensorInt8::TensorInt8(const TensorRange& range)
    : scale_((static_cast<double>(range.max) - static_cast<double>(range.min)) / kMaxCode),
      zero_(std::rint(-static_cast<double>(range.min) / scale_)),
      only_value_(range.min) {}

void TensorInt8::Round(std::span<float> values) const {
  if (scale_ == 0) {
    std::ranges::fill(values, only_value_);
    return;
  }
  for (float& x : values) {
    const double code = std::clamp(std::rint(static_cast<double>(x) / scale_) + zero_, 0.0, kMaxCode);
    x = static_cast<float>((code - zero_) * scale_);
  }
}

void PerTensorInt8::Add(const AttentionRows& rows, uint64_t num_rows) {
  LayerRanges& ranges = ranges_[rows.layer];
  for (uint64_t row = 0; row < num_rows; ++row) {
    ranges.k.Add({rows.k + row * rows.kv_stride, kv_width_});
    ranges.v.Add({rows.v + row * rows.kv_stride, kv_width_});
  }
}

KvEditor PerTensorInt8::Editor() const {
  struct Layer {
    TensorInt8 k, v;
  };
  std::vector<Layer> layers;
  for (const LayerRanges& ranges : ranges_) layers.push_back({TensorInt8(ranges.k), TensorInt8(ranges.v)});
  return [layers = std::move(layers)](uint32_t layer, std::span<float> k, std::span<float> v) {
    layers[layer].k.Round(k);
    layers[layer].v.Round(v);
  };
}

}  // namespace kvern
