// What kvern compare measures: one row per way to keep keys and values, built from what this build has.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "cli/codec_pair.h"
#include "kvern/engine.h"

namespace kvern::cli {

// One row.
struct CompareCase {
  std::string name;  // "f16", "paged 16", "no cache".
  CacheOptions cache;
  // No cache but a recipe to compare codecs with (QualityRequest::has_per_tensor_int8): quality is all that is
  // measured.
  bool is_per_tensor_int8 = false;
};

// The window of rows that have one: a quarter of the length, in whole granules, with so many sinks.
inline constexpr uint32_t kCompareSinks = 4;

struct ComparePlan {
  uint32_t length = 2048;          // Tokens in the longest prompt.
  uint32_t num_generated = 40;     // Decoded at each depth.
  uint32_t num_uncached = 3;       // The same without the cache, where each costs a whole pass.
  uint64_t quality_tokens = 2048;  // Scored per codec.
  uint32_t batch = 4;              // Sequences that decode together; 0: leaves them out.
  uint32_t batch_tokens = 2000;    // Tokens of each of them.
  uint32_t batch_steps = 16;       // In which all of them decode.

  // Where latencies are taken: an eighth, a quarter, a half and all of `length`.
  std::vector<uint32_t> Depths() const;
  uint32_t GeneratedBy(const CompareCase& row) const { return row.cache.is_enabled ? num_generated : num_uncached; }
  // The longest sequence that the engines of all rows are opened for: twice what is used, as a server does not know
  // either how long an answer will be. At most the model's.
  uint32_t ContextTokens(const ModelInfo& model) const;
  uint32_t WindowTokens() const { return std::max(16u, length / 4 / 16 * 16); }
  // Tokens of text that the plan needs.
  size_t TextTokens() const;
  // kInvalidArgument where the model's context is too small, or a number makes no sense.
  Status Validate(const ModelInfo& model) const;
};

// All rows, with `base` for what a row does not decide.
std::vector<CompareCase> AllCases(const ComparePlan& plan, const CacheOptions& base);
// Those whose name is in `names` (all where that is empty), in the order of the table. kInvalidArgument names one that
// there is none of, and lists them all.
Result<std::vector<CompareCase>> ChooseCases(std::vector<CompareCase> cases, const std::vector<std::string>& names);

// Whether two caches hold the same bits of the same tokens, and so give the same logits.
bool HaveEqualLogits(const CacheOptions& a, const CacheOptions& b);
// The caches whose quality must be measured for `cases`: one of each that gives equal logits, without those of f32.
std::vector<CacheOptions> QualityCandidates(const std::vector<CompareCase>& cases);

// Work in units of about one prompt token, to tell how much time is left.
uint64_t DepthWork(const ComparePlan& plan, const CompareCase& row, uint32_t depth);
uint64_t SpeedWork(const ComparePlan& plan, const CompareCase& row);  // All depths.
uint64_t BatchWork(const ComparePlan& plan, const CompareCase& row);

}  // namespace kvern::cli
