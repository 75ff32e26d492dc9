#include "cli/perplexity.h"

#include <algorithm>
#include <cmath>
#include <string>

namespace kvern::cli {

Result<std::vector<ScoreWindow>> ChunkedWindows(size_t num_tokens, size_t size, size_t score_from) {
  if (size < 4) return Status::InvalidArgument("chunks of " + std::to_string(size) + " tokens; at least 4 are needed");
  if (num_tokens < size) {
    return Status::InvalidArgument("the text has " + std::to_string(num_tokens) + " tokens, less than one chunk of " +
                                   std::to_string(size) + "; give a longer text, a smaller --ctx-size or --stride");
  }
  if (score_from >= size) {
    return Status::InvalidArgument("--score-from is " + std::to_string(score_from) + ", expected less than the " +
                                   std::to_string(size) + " tokens of --ctx-size");
  }
  const size_t first_scored = score_from != 0 ? score_from : size / 2 + 1;
  std::vector<ScoreWindow> windows;
  for (size_t begin = 0; begin + size <= num_tokens; begin += size) {
    windows.push_back({begin, begin + size, begin + first_scored});
  }
  return windows;
}

Result<std::vector<ScoreWindow>> SlidingWindows(size_t num_tokens, size_t size, size_t stride) {
  if (stride == 0 || stride >= size) {
    return Status::InvalidArgument("a stride of " + std::to_string(stride) +
                                   "; it must be at least 1 and less than the " + std::to_string(size) +
                                   " tokens of --ctx-size");
  }
  if (num_tokens < 2) {
    return Status::InvalidArgument("the text has " + std::to_string(num_tokens) + " tokens; at least 2 are needed");
  }
  std::vector<ScoreWindow> windows;
  size_t num_scored = 1;  // Nothing stands before the first token.
  for (size_t begin = 0; num_scored < num_tokens; begin += stride) {
    const size_t end = std::min(begin + size, num_tokens);
    windows.push_back({begin, end, num_scored});
    num_scored = end;
  }
  return windows;
}

void NllMean::Add(float log_prob) {
  const double nll = -static_cast<double>(log_prob);
  ++count_;
  sum_ += nll;
  sum_of_squares_ += nll * nll;
}

double NllMean::mean() const { return count_ == 0 ? 0 : sum_ / static_cast<double>(count_); }

double NllMean::standard_error() const {
  if (count_ < 2) return 0;
  const double n = static_cast<double>(count_);
  const double variance = sum_of_squares_ / n - mean() * mean();
  return variance <= 0 ? 0 : std::sqrt(variance / (n - 1));
}

double NllMean::perplexity() const { return std::exp(mean()); }

double NllMean::perplexity_error() const { return perplexity() * standard_error(); }

}  // namespace kvern::cli
