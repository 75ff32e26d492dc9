// The outcome of a load in numbers.
#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cli/load_answer.h"
#include "cli/load_plan.h"

namespace kvern::cli {

// Of a list of times. Percentile p: the smallest value that p % of all do not exceed (nearest rank). Zeros for none.
struct Percentiles {
  uint64_t count = 0;
  double mean = 0;
  double p50 = 0;
  double p90 = 0;
  double p99 = 0;
  double max = 0;
};
Percentiles PercentilesOf(std::vector<double> values);

// Failures of one kind.
struct LoadFailure {
  uint64_t count = 0;
  std::string message;  // Of the first one.
};

// What came of a load.
struct LoadOutcome {
  std::vector<AnswerSample> samples;
  double wall_s = 0;             // From the begin to the end of the last request.
  uint64_t peak_at_once = 0;     // Requests under way.
  uint64_t num_never_asked = 0;  // Conversations that had arrived and still waited for a client at the end.
};

struct LoadSummary {
  uint64_t num_asked = 0;
  uint64_t num_done = 0;
  uint64_t num_hung_up = 0;
  uint64_t num_cut = 0;
  uint64_t num_failed = 0;
  std::map<std::string, LoadFailure> failures;  // By AnswerSample::failure.
  double wall_s = 0;
  uint64_t peak_at_once = 0;
  uint64_t num_never_asked = 0;

  // Of requests that are done.
  Percentiles first_token_ms;
  Percentiles gap_ms;        // From a piece of text to the next one, all requests together.
  Percentiles ms_per_token;  // The mean of each request.
  Percentiles latency_ms;
  AnswerUsage tokens;      // Sums.
  bool has_usage = false;  // Every answer had it.

  // Tokens of all answers, those of requests that were hung up or failed too, per second.
  double tokens_per_s = 0;
  double requests_per_s = 0;  // Done.
};
LoadSummary Summarize(const LoadOutcome& outcome);

// Whom the load was put on.
struct LoadTarget {
  std::string url;
  std::string model;
};

std::string LoadText(const LoadTarget& target, const LoadPlan& plan, const LoadSummary& summary);
nlohmann::ordered_json LoadJson(const LoadTarget& target, const LoadPlan& plan, const LoadSummary& summary);

}  // namespace kvern::cli
