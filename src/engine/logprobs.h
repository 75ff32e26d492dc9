// LogprobReader: how likely a model finds the token that was drawn and the most likely ones.
//
// The probabilities are the softmax of the model's own logits: before bias, penalties, temperature and cuts, so that
// they say what the model thinks and not how it was sampled. Same bits on every target.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/kernel_table.h"
#include "kvern/token_stream.h"

namespace kvern {

class LogprobReader {
 public:
  // `kernels` must outlive the reader.
  LogprobReader(uint32_t num_top, const KernelTable& kernels) : num_top_(num_top), kernels_(kernels) {}

  // Two passes over `logits`, one per token of the vocabulary, which must hold `drawn`.
  void Read(std::span<const float> logits, TokenId drawn);

  // What was read last. NaN where the logits are not finite.
  float drawn() const { return drawn_; }
  const std::vector<TokenLogprob>& top() const { return top_; }  // Best first, of equal ones the lowest id.

 private:
  const uint32_t num_top_;
  const KernelTable& kernels_;
  std::vector<float> powers_;  // Scratch.
  float drawn_ = 0;
  std::vector<TokenLogprob> top_;
};

}  // namespace kvern
