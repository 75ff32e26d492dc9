// The result of kvern bench as a table and as JSON.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cli/bench_plan.h"

namespace kvern::cli {

// How close a row comes to the limit that matters for it; 0 where that was not probed.
//   prefill, several sequences   2 x weights of all layers x tokens/s, of the int8 peak
//   one sequence                 (bytes of all weights + of the keys and values read) x tokens/s, of the read bandwidth
struct LimitShare {
  bool is_compute = true;
  double share = 0;
};
LimitShare ShareOf(const Engine& engine, const BenchPlan& plan, const BenchRow& row);

// Rows without samples are left out.
std::string BenchTable(const Engine& engine, const BenchPlan& plan, const std::vector<BenchRow>& rows);
nlohmann::ordered_json BenchJson(const Engine& engine, const BenchPlan& plan, const std::vector<BenchRow>& rows);

}  // namespace kvern::cli
