// What kvern bench measures: repeatable token ids, medians with their spread, and work per token in the machine's
// terms.
#pragma once

#include <cstdint>
#include <vector>

#include "kvern/model_info.h"
#include "kvern/tokenizer.h"

namespace kvern::cli {

// `count` ids in [0, vocab_size) from a fixed generator: equal arguments give equal ids everywhere. Different `series`
// share no beginning, so no run finds the tokens of an earlier one in a cache.
std::vector<TokenId> BenchTokens(size_t count, uint32_t vocab_size, uint64_t series);

struct Spread {
  double median = 0;
  double min = 0;
  double max = 0;
};
// Zeros for no samples; the mean of the middle two for an even number.
Spread SpreadOf(std::vector<double> samples);

// Weights that one prompt token is multiplied with: those of all layers. The embedding is only looked up, and the
// output head is needed for the last token of a prompt alone.
uint64_t WeightsPerPromptToken(const ModelInfo& info);

}  // namespace kvern::cli
