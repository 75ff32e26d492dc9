// Measuring the rows of kvern compare.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "cli/compare_plan.h"
#include "kvern/quality.h"

namespace kvern::cli {

// Decoding from a prompt of `depth` tokens on.
struct DepthResult {
  uint32_t depth = 0;
  double first_token_s = 0;           // From Submit to the first token.
  std::vector<double> token_seconds;  // Of each token after it.
};

struct CompareResult {
  CompareCase row;
  uint64_t bytes_per_token = 0;
  std::vector<DepthResult> depths;        // Ascending; empty: not measured (yet).
  RequestStats stats;                     // Of the deepest one, up to its last timed token.
  uint64_t peak_bytes = 0;                // Blocks in use at the worst.
  uint64_t unused_bytes = 0;              // Held at the end of the deepest one without a token that is seen.
  uint64_t context_bytes = 0;             // That one sequence of the context needs at the worst.
  std::optional<QualityNumbers> quality;  // Against f32; nullopt: not measured.
  uint64_t sequences_per_gib = 0;
  double batch_tokens_per_s = 0;  // All sequences of the batch together; 0: not measured.
};

struct CompareRun {
  ComparePlan plan;
  EngineOptions options;  // Common to all rows.
  ModelInfo model;
  std::vector<TokenId> text;
  uint64_t quality_tokens_done = 0;
  std::vector<CompareResult> results;
};

// Fills in the results of `run` for `cases`, those that the model cannot have left out with a line on stderr: speed row
// by row, then quality of all codecs in lock-step, then batches. kCancelled after Ctrl-C: what was measured so far
// stays.
Status MeasureCases(const std::vector<CompareCase>& cases, CompareRun& run);

// The value that a share `q` of `samples` does not exceed (nearest rank); 0 for none.
double PercentileOf(std::vector<double> samples, double q);
// Fills in bytes per token and how many sequences a GiB holds with the cache of `result`. The Status is not ok where
// the model cannot be kept so, and says why.
Status PlanMemory(const CompareRun& run, CompareResult& result);

}  // namespace kvern::cli
