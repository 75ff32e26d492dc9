// Counters that the engine keeps, per request and in total.
#pragma once

#include <cstdint>

namespace kvern {

// The work of one request. "Token computed" = its keys and values in all layers were computed in some step; without the
// cache the same token counts again in every step. "Reused" = a step needed a token's keys and values and found them.
struct RequestStats {
  uint64_t prompt_tokens = 0;
  // Each prompt token is computed for this request or found computed by another with the same prompt (SubmitChoices):
  // the two add up to prompt_tokens once the prompt is done.
  uint64_t prompt_tokens_computed = 0;
  uint64_t prompt_tokens_reused = 0;
  uint64_t generated_tokens = 0;
  uint64_t tokens_computed = 0;
  uint64_t tokens_reused = 0;
  uint64_t query_key_products = 0;  // Needed ones over all layers and heads; masked and padded ones not counted.
  uint64_t steps = 0;
  uint64_t queue_us = 0;           // From Submit to the first step.
  uint64_t prefill_us = 0;         // From the first step to the first generated token (or the end of the prompt).
  uint64_t decode_us = 0;          // From the first generated token to the last.
  uint64_t num_preemptions = 0;    // How often it waited while others had its memory.
  uint64_t tokens_recomputed = 0;  // Computed again because a preemption lost them; not in the counts above.
  uint64_t kv_bytes = 0;           // Bytes of the blocks that the sequence held at its end, shared ones included.
};

// Blocks of the KV cache by state, over all layer groups; free + filling + full + idle = total, in blocks and in bytes.
struct CacheStats {
  uint64_t total_blocks = 0;
  uint64_t free_blocks = 0;
  uint64_t filling_blocks = 0;
  uint64_t full_blocks = 0;
  uint64_t idle_blocks = 0;       // Of no sequence, kept because they may be hit again; they make room when needed.
  uint64_t block_bytes = 0;       // Of the first layer group: blocks of different groups differ in bytes.
  uint64_t peak_used_blocks = 0;  // Of sequences; the sum of each layer group's peak.
  uint64_t total_bytes = 0;
  uint64_t free_bytes = 0;
  uint64_t filling_bytes = 0;
  uint64_t full_bytes = 0;
  uint64_t idle_bytes = 0;
  uint64_t peak_used_bytes = 0;  // Of all layer groups at once.
  uint64_t copied_bytes = 0;     // From block to block: forks, and tables that have outgrown their blocks.
};

struct EngineStats {
  CacheStats cache;
  uint64_t steps = 0;
  uint64_t tokens_computed = 0;
  uint64_t tokens_reused = 0;
  uint64_t query_key_products = 0;
  uint64_t kv_values_lost = 0;  // Values of K and V that their codec could not hold: not finite, or beyond its range.
  uint64_t tokens_recomputed = 0;  // As in RequestStats.
  uint64_t num_preemptions = 0;
  uint64_t spilled_bytes = 0;   // Moved out to the second memory so far,
  uint64_t restored_bytes = 0;  // and back.
  uint64_t running_sequences = 0;
  uint64_t queued_requests = 0;
  uint64_t load_us = 0;
  uint64_t weight_bytes = 0;     // Packed weights in memory.
  uint64_t huge_page_bytes = 0;  // Memory that stands on huge pages.
};

}  // namespace kvern
