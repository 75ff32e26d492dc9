// PrefillBudget: how many prompt tokens may go into a step while answers stream, so that the step takes about the time
// that the streams may wait. Learns from the steps themselves: no model of the machine, no clock of its own.
#pragma once

#include <algorithm>
#include <cstdint>

namespace kvern {

class PrefillBudget {
 public:
  // budget_us: 0 for no limit. max_rows: of any step.
  PrefillBudget(uint64_t budget_us, uint64_t max_rows)
      : budget_us_(budget_us), max_rows_(max_rows), rows_(budget_us == 0 ? max_rows : std::min(kFirstRows, max_rows)) {}

  uint64_t max_rows() const { return max_rows_; }
  uint64_t rows_beside_streams() const { return rows_; }

  // A step with `num_rows` prompt tokens took `micros`. `has_streams`: answers streamed meanwhile.
  void OnStep(uint64_t num_rows, bool has_streams, uint64_t micros) {
    if (budget_us_ == 0 || num_rows == 0 || micros == 0) return;
    const uint64_t fitting = num_rows * budget_us_ / micros;  // Were rows all that costs.
    if (has_streams && micros > budget_us_) {
      rows_ = std::clamp(fitting, fewest_rows(), max_rows_);
    } else if (num_rows >= rows_) {  // Only a full step shows whether there is room for more.
      rows_ = std::clamp(std::min(fitting, rows_ + rows_ / 4 + 1), fewest_rows(), max_rows_);
    }
  }

 private:
  static constexpr uint64_t kFirstRows = 64;
  static constexpr uint64_t kFewestRows = 16;
  uint64_t fewest_rows() const { return std::min(kFewestRows, max_rows_); }  // Prompts always go on.

  const uint64_t budget_us_;
  const uint64_t max_rows_;
  uint64_t rows_;
};

}  // namespace kvern
