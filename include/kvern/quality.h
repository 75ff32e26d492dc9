// Quality: what storing keys and values in fewer bits costs, measured against f32 on the same tokens.
//
// Reference and candidates go through the text in lock-step: one model, one set of rows, each with a cache of its own
// that it stores into and reads back. A large chunk gives the same bits as one token at a time, so nothing of the error
// of a stored row is hidden by the size of a step.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kvern/options.h"
#include "kvern/status.h"
#include "kvern/tokenizer.h"

namespace kvern {

// A statistic and its standard error, as if tokens were independent.
struct Estimate {
  double value = 0;
  double error = 0;
};

// How next-token distributions of a candidate differ from those of the reference, over `num_tokens` tokens.
struct QualityNumbers {
  uint64_t num_tokens = 0;
  // Kullback-Leibler divergence D(reference || candidate) in nats; infinite where the candidate's logits are not
  // finite.
  Estimate kld_mean;
  Estimate kld_p50;
  Estimate kld_p99;
  double kld_max = 0;
  Estimate same_top;        // Share of tokens for which both find the same token most likely.
  Estimate rms_delta_p;     // Root mean square of the change in the probability of the token that follows.
  Estimate nll_difference;  // Mean of the candidate's negative log-likelihood of that token minus the reference's.
  Estimate reference_nll;
};

// Tokens whose context has `begin` to `end` - 1 tokens before them.
struct QualityBucket {
  uint32_t begin = 0;
  uint32_t end = 0;
  QualityNumbers numbers;
};

struct QualityReport {
  CacheOptions cache;               // The candidate; where is_per_tensor_int8, that of the reference.
  bool is_per_tensor_int8 = false;  // QualityRequest::has_per_tensor_int8.
  QualityNumbers all;
  std::vector<QualityBucket> buckets;  // Ascending; those without tokens are left out.
};

struct QualityRequest {
  EngineOptions engine;  // Its cache options do not count.
  std::vector<CacheOptions> candidates;
  // Measures one more candidate, whose report comes last: 8 bits with one scale and one zero point for all keys of a
  // layer in the scored text, and one for its values. No cache can keep this up while a text grows, so it is no KvType;
  // it shows what finer scales are worth. The ranges of keys and values take a pass of their own.
  bool has_per_tensor_int8 = false;
  std::vector<TokenId> tokens;
  uint64_t num_scored = 0;          // Tokens to score, from the beginning; 0: all that `tokens` has.
  uint32_t sequence_tokens = 4096;  // `tokens` is cut into sequences of this many rows; at most the context.
};

// Called after each step; false ends the measurement: reports are then about the tokens done so far.
using QualityProgress = std::function<bool(uint64_t tokens_done, uint64_t tokens_total)>;

// One report per candidate, in their order. With int8 activations every small change flips roundings of activations,
// which adds a divergence of its own that no codec can be blamed for; ActivationMode::kF32 shows the codec alone. Loads
// the model once. kInvalidArgument for a text that is too short or a candidate that the model cannot have; kCorruption
// where the reference itself is not finite; kCancelled where `progress` ends it before the first token; otherwise as
// Engine::Open.
Result<std::vector<QualityReport>> MeasureQuality(const QualityRequest& request, const QualityProgress& progress = {});

// A verdict needs this many scored tokens.
inline constexpr uint64_t kVerdictTokens = 8000;

// What a codec of this width must reach.
struct QualityGate {
  std::string_view name;    // "16-bit", "8-bit", "K8V4", "4-bit".
  double max_kld_mean = 0;  // At most.
  double min_same_top = 0;  // At least; 0: not asked for.
};

// The gate of keys in `k_type` and values in `v_type`; nullopt where both are f32, which loses nothing.
std::optional<QualityGate> GateFor(KvType k_type, KvType v_type);
// Whether such a cache should be measured on a model before it is trusted: 8 bits or fewer. The 16-bit types have a
// gate too, but no model is known to fail it unless its values leave their range, which is counted and reported apart.
bool NeedsVerdict(KvType k_type, KvType v_type);
bool PassesGate(const QualityGate& gate, const QualityNumbers& numbers);

// What codecs and kernels compute is that of this version (docs/numerics.md): reports of another one are of other
// codecs.
uint32_t NumericsVersion();

}  // namespace kvern
