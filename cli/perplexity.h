// Perplexity: which windows of a text are scored, and the mean and error of what comes out.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "kvern/status.h"

namespace kvern::cli {

// Tokens [begin, end) are given to the model at once; those from first_scored (an index into the text) on are scored.
struct ScoreWindow {
  size_t begin = 0;
  size_t end = 0;
  size_t first_scored = 0;
};

// Consecutive windows of `size` tokens; the rest of the text is left out. Of each window the tokens from `score_from`
// on are scored; 0: those after position size / 2, as llama-perplexity does it. kInvalidArgument where not one window
// fits, or score_from is none of its tokens.
Result<std::vector<ScoreWindow>> ChunkedWindows(size_t num_tokens, size_t size, size_t score_from = 0);

// Windows of at most `size` tokens that begin every `stride` tokens; each token but the first is scored once, in the
// first window that holds it. stride must be in [1, size).
Result<std::vector<ScoreWindow>> SlidingWindows(size_t num_tokens, size_t size, size_t stride);

// Mean negative log-likelihood of tokens, in nats, and what follows from it.
class NllMean {
 public:
  void Add(float log_prob);
  uint64_t count() const { return count_; }
  double mean() const;
  double standard_error() const;  // Of the mean, as if tokens were independent; 0 for fewer than two.
  double perplexity() const;
  double perplexity_error() const;  // First order: perplexity * standard_error.

 private:
  uint64_t count_ = 0;
  double sum_ = 0;
  double sum_of_squares_ = 0;
};

}  // namespace kvern::cli
