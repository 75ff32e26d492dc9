// Runs a Model over token sequences in any cut, on scattered and poisoned blocks, and keeps every bit of the outcome.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "kernels/kv_view.h"
#include "model/model.h"

namespace kvern {

// How one forward pass over whole sequences is cut.
struct ForwardPlan {
  uint32_t block_size = 64;
  uint32_t chunk = 0;  // Rows of each sequence per step; 0: all at once.
  KvType kv_type = KvType::kF32;
  std::optional<KvType> v_type = {};  // Where it is not that of K.
  bool has_key_centres = true;        // Of codecs that centre keys; made up, in layers that see no pinned slots.
  bool is_uncached = false;           // Every step computes all tokens so far again, in fresh blocks.
  // What rows see in layers without a window of their own. Blocks of which a step sees no slot are not in its tables.
  AttentionSpan span = {};
  std::string ToString() const;
};

// The bits of one sequence: logits of every row, K and V of every token as stored.
struct ForwardTrace {
  std::vector<float> logits;  // [tokens][vocab]
  std::vector<float> k, v;    // [layers][tokens][kv heads * head dim]
  // Where the two differ first, or "" where they are equal bit for bit (any NaN equals any NaN).
  std::string FirstDifference(const ForwardTrace& other) const;
};

struct ForwardOutcome {
  std::vector<ForwardTrace> traces;  // One per sequence.
  uint64_t rows_computed = 0;
  uint64_t query_key_products = 0;
};

// Runs all sequences side by side: each step holds the next `chunk` tokens of every sequence that is not done. Blocks
// are dealt in a shuffled order from memory that is filled with NaN bytes, for each layer group its own.
ForwardOutcome RunForward(Model& model, const KernelTable& kernels, const std::vector<std::vector<TokenId>>& sequences,
                          const ForwardPlan& plan);

}  // namespace kvern
