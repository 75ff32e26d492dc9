// kvern inspect --placements: what each placement reserves, uses and wastes for a mix of sequences.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kvern/cache_cost.h"

namespace CLI {
class App;
}

namespace kvern::cli {

class PlacementTable {
 public:
  void AddTo(CLI::App& app);
  bool is_wanted() const { return is_wanted_; }
  // Prints the table for the model at `path`; the exit code. Blocks are of
  // `block_size`; the default placement is shown with small and large ones too.
  int Run(const std::string& path, uint32_t block_size, bool is_json) const;

 private:
  Result<std::vector<uint32_t>> Lengths() const;
  std::vector<CacheOptions> Candidates(uint32_t block_size) const;

  bool is_wanted_ = false;
  std::string lengths_;
  uint32_t max_tokens_ = 0;
  uint32_t window_tokens_ = 0;
  uint32_t num_sinks_ = 0;
};

// 32 lengths from 200 to 4,000 tokens, evenly spread.
std::vector<uint32_t> DefaultLengths();

}  // namespace kvern::cli
