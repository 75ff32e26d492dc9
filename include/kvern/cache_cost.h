// What the keys and values of a model cost: known to the byte before anything is allocated.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kvern/options.h"
#include "kvern/status.h"

namespace kvern {

// Layers that see the same span share their blocks.
struct LayerGroupCost {
  uint32_t num_layers = 0;
  uint32_t window_tokens = 0;    // That a row sees; 0: all.
  uint64_t bytes_per_token = 0;  // K and V over these layers.
  uint64_t block_bytes = 0;
  uint64_t num_blocks = 0;  // In the budget.
};

struct CacheCost {
  std::vector<LayerGroupCost> layer_groups;
  uint64_t bytes_per_token = 0;  // Over all layers, while no window has moved on.
  uint64_t budget_bytes = 0;
  uint32_t context_tokens = 0;  // Longest sequence that fits the budget alone, of those asked for.
  uint64_t sequence_bytes = 0;  // What a sequence of that length holds at the worst.
};

// How a placement keeps sequences that have come to certain lengths, one token at a time.
struct PlacementUsage {
  std::string placement;
  uint32_t block_size = 0;
  uint64_t reserved_bytes = 0;  // Of the blocks held.
  uint64_t used_bytes = 0;      // Of the slots that later tokens see.
  uint64_t peak_bytes = 0;      // Held at the worst on the way: a growing run and the one it replaces.
  std::string unavailable;      // Why the model's layers cannot be placed so; the numbers are then 0.

  uint64_t wasted_bytes() const { return reserved_bytes - used_bytes; }
};

// Names accepted by CacheOptions::placement.
std::vector<std::string> PlacementNames();

// The usage of each of `candidates` by sequences of the model at `path` that have `lengths` tokens, each of which may
// come to `max_tokens`. kInvalidArgument for a length of 0 or beyond max_tokens; otherwise errors of InspectModel and
// CacheOptions::Validate.
Result<std::vector<PlacementUsage>> ComparePlacements(const std::string& path,
                                                      const std::vector<CacheOptions>& candidates,
                                                      const std::vector<uint32_t>& lengths, uint32_t max_tokens);

}  // namespace kvern
