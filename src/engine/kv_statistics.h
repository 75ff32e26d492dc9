// KvStatistics: sums up the queries, keys and values of one pass, layer by layer.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kvern/kv_diagnostics.h"
#include "model/model.h"

namespace kvern {

// Rows of one head inside rows of several.
struct HeadRows {
  const float* data;  // The head's first value in row 0.
  size_t stride;
  uint32_t num_rows;
  uint32_t head_dim;
  std::span<const float> row(uint32_t i) const { return {data + i * stride, head_dim}; }
};

RowStatistics StatisticsOf(const HeadRows& rows);
// Mean over channels of the correlation of a channel with itself one row earlier; channels that never change are left
// out. 0 for fewer than three rows.
double Lag1Of(const HeadRows& rows);
// Mean cosine between rows of the same token.
double MeanCosine(const HeadRows& a, const HeadRows& b);

// What one query finds: scaled products with the keys that it sees, and the weights that they come to.
struct QueryAttention {
  double entropy = 0;
  double sink_share = 0;
  double recent_share = 0;
  double score_deviation = 0;
};
// The query at `position` sees positions [first_visible, position].
QueryAttention AttentionOf(std::span<const float> query, const HeadRows& keys, uint32_t first_visible,
                           uint32_t position, double scale);

class KvStatistics {
 public:
  // `config` must outlive it. The pass has `num_rows` rows of one sequence, from position 0 on.
  KvStatistics(const ModelConfig& config, uint32_t num_rows);

  // An AttentionObserver, for every layer in order.
  void Observe(const AttentionRows& rows);
  uint32_t layers_done() const { return layers_done_; }
  // After the pass.
  KvDiagnosis Take() { return std::move(diagnosis_); }

 private:
  HeadRows KvHead(const float* data, size_t stride, uint32_t head) const;
  void CheckFinite(char name, const AttentionRows& rows, const float* data, size_t stride, uint32_t num_heads);
  // Before RoPE: what neighbouring tokens, heads and layers have in common.
  void Relate(const AttentionRows& rows);
  // After RoPE: what is stored, and what attention makes of it.
  void Describe(const AttentionRows& rows);
  void DescribeAttention(const AttentionRows& rows, uint32_t kv_head, HeadDiagnosis& head) const;

  const ModelConfig& config_;
  const uint32_t num_rows_;
  const uint32_t kv_width_;
  KvDiagnosis diagnosis_;
  std::vector<float> k_before_, v_before_;  // [rows][kv_width] of the layer before, K before RoPE.
  uint32_t layers_done_ = 0;
};

}  // namespace kvern
