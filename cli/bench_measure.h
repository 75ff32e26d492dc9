// Measuring the rows of kvern bench on a running engine.
#pragma once

#include <vector>

#include "cli/bench_plan.h"

namespace kvern::cli {

// Fills in the samples, and the limits where `is_probing`. kCancelled after Ctrl-C: what was measured so far stays.
Status MeasureRows(Engine& engine, const BenchPlan& plan, bool is_probing, std::vector<BenchRow>& rows);

}  // namespace kvern::cli
