// KV diagnostics: what a model's keys and values look like on a text, and which codecs that allows.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "kvern/options.h"
#include "kvern/status.h"
#include "kvern/tokenizer.h"

namespace kvern {

// Keys or values of one KV head in one layer, as the cache stores them (keys after RoPE).
struct RowStatistics {
  double min = 0;
  double max = 0;
  double mean = 0;
  double deviation = 0;
  double mean_norm = 0;       // Of a token's row.
  double norm_deviation = 0;  // Between tokens, as a share of mean_norm.
  double outlier_ratio = 0;   // Largest magnitude / mean magnitude.
  double mean_peak = 0;       // Mean over tokens of the largest magnitude in the row: what one scale per row must span.
  double mean_share = 0;      // Share of all squares that lies in the means of the channels.
  uint64_t num_beyond_f16 = 0;
  std::vector<double> channel_means;  // [head_dim]
};

struct HeadDiagnosis {
  RowStatistics k, v;
  double k_lag1 = 0;          // Correlation of a channel of K before RoPE with itself one token earlier; mean.
  double k_cosine_heads = 0;  // Mean cosine with the rows of the layer's other KV heads, before RoPE; 0 where none.
  double v_cosine_heads = 0;
  double k_cosine_layers = 0;  // The same with this head's rows in the layer before; 0 in the first.
  double v_cosine_layers = 0;
  // Of the query heads that read this KV head, over sampled queries.
  double entropy = 0;          // Of the attention weights, in nats.
  double sink_share = 0;       // Weight of the first 4 tokens.
  double recent_share = 0;     // Weight of the last 64 tokens, the query's own included.
  double score_deviation = 0;  // Of the scaled query-key products over the tokens that a query sees.
  // Deviation that rounding K adds to those products, once channel means are taken out and the rest is rotated, as the
  // codecs do: int8 with a scale per row, int4 with a scale per 32.
  double score_noise_int8 = 0;
  double score_noise_int4 = 0;
};

// The first value that is no number.
struct NonFiniteValue {
  char row = 'K';  // 'Q', 'K', 'V'.
  uint32_t layer = 0;
  uint32_t head = 0;
  uint32_t position = 0;
};

struct KvDiagnosis {
  uint32_t num_layers = 0;
  uint32_t num_heads = 0;
  uint32_t num_kv_heads = 0;
  uint32_t head_dim = 0;
  uint64_t num_tokens = 0;
  std::vector<HeadDiagnosis> heads;  // [layers][num_kv_heads]; meaningless from the first value that is no number on.
  std::optional<NonFiniteValue> non_finite;

  const HeadDiagnosis& Head(uint32_t layer, uint32_t kv_head) const {
    return heads[size_t{layer} * num_kv_heads + kv_head];
  }
};

// Called after each layer; false cancels.
using DiagnosisProgress = std::function<bool(uint32_t layers_done, uint32_t num_layers)>;

// One pass over `tokens` (two at least, at most the context) with f32 keys and values. Memory: K and V of the text and
// step buffers for all its rows at once. Errors as for Engine::Open; kCancelled where `progress` says so.
Result<KvDiagnosis> DiagnoseKv(const EngineOptions& options, const std::vector<TokenId>& tokens,
                               const DiagnosisProgress& progress = {});

// What follows from it, as sentences: what was found and which codec is safe for this model, most important first.
std::vector<std::string> AdviceFor(const KvDiagnosis& diagnosis);

}  // namespace kvern
