// Sampler: draws the next token of one sequence from its logits, as SamplingOptions say (include/kvern/request.h).
//
// Its choice is a pure function of the logits, the tokens so far, the options and the choice index: the exponential is
// the kernels' own, sums run in one order, and the random number is keyed by (seed, choice index, position).
#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "kernels/kernel_table.h"
#include "kvern/request.h"
#include "kvern/status.h"

namespace kvern {

class Sampler {
 public:
  // `options` must be valid; `kernels` must outlive the sampler. prompt_tokens: how many tokens precede the answer.
  Sampler(SamplingOptions options, uint32_t choice_index, const KernelTable& kernels, size_t prompt_tokens = 0);

  // The token that follows `tokens` (prompt included), which grow from call to call. `logits`: one per token of the
  // vocabulary. Ids in `tokens` and in the logit bias must lie inside the vocabulary. A logit that is not finite never
  // wins; kCorruption where none is finite. Greedy and top_k take one pass over the vocabulary; top_p also sorts the
  // tokens that it may keep.
  Result<TokenId> Sample(std::span<const float> logits, std::span<const TokenId> tokens);

 private:
  // `logits` with bias and penalty, in scratch where there are any.
  std::span<const float> Adjust(std::span<const float> logits, std::span<const TokenId> tokens);
  void PenaliseRepeats(std::span<const TokenId> tokens);
  void PenaliseOccurrences(std::span<const TokenId> tokens);
  Result<TokenId> Greedy(std::span<const float> logits) const;
  // Fills ids_ and values_ with the finite logits: all in the order of ids, or the top_k best, best first.
  void CollectAll(std::span<const float> logits);
  void CollectTopK(std::span<const float> logits, uint32_t k);
  void KeepTopP(double sum);
  void KeepMinP();

  const SamplingOptions options_;
  const uint32_t choice_index_;
  const KernelTable& kernels_;
  // How often the first num_counted_ tokens hold each token of the answer. Filled where a penalty needs it.
  std::unordered_map<TokenId, uint32_t> counts_;
  size_t num_counted_;
  // Scratch, kept between draws.
  std::vector<float> adjusted_;
  std::vector<TokenId> recent_;
  std::vector<TokenId> ids_;   // Candidates ...
  std::vector<float> values_;  // ... their logits, then their probabilities times a common factor.
  std::vector<uint64_t> order_;
};

}  // namespace kvern
