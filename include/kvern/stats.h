// Counters that the engine keeps, per request and in total.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kvern/tokenizer.h"

namespace kvern {

// The work of one request. "Token computed" = its keys and values in all layers were computed in some step; without the
// cache the same token counts again in every step. "Reused" = a step needed a token's keys and values and found them.
struct RequestStats {
  uint64_t prompt_tokens = 0;
  // Each prompt token is computed for this request or found computed by another with the same prompt (SubmitChoices):
  // the two add up to prompt_tokens once the prompt is done.
  uint64_t prompt_tokens_computed = 0;
  uint64_t prompt_tokens_reused = 0;
  // Why those that were not in the cache when the request began had to be computed. With prompt_tokens_found they add
  // up to prompt_tokens. The last token of a prompt is always computed, for its logits.
  uint64_t prompt_tokens_found = 0;       // In the cache when it began.
  uint64_t prompt_tokens_first_time = 0;  // Never seen, as far as the cache remembers.
  uint64_t prompt_tokens_evicted = 0;     // Were there, and had to make room.
  uint64_t prompt_tokens_diverged = 0;    // After the point at which a cached sequence goes on otherwise.
  uint64_t prompt_tokens_last = 0;        // 1 where all others were found.
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

// The last place at which a cached sequence of the same salt still begins like a prompt and then goes on otherwise.
struct PromptDivergence {
  uint64_t position = 0;     // The first token that differs.
  uint64_t block_begin = 0;  // Position of the first of `tokens`,
  // which are those of the cached block; empty where another tenant has computed it (Request::tenant).
  std::vector<TokenId> tokens = {};
  std::vector<TokenId> prompt = {};  // What the prompt has in their place.
};

// What one salt (Request::cache_salt) has in the cache.
struct TenantHolding {
  std::string salt;
  uint64_t blocks = 0;
  uint64_t idle_blocks = 0;
  uint64_t bytes = 0;
  uint64_t tokens = 0;         // Of the first layer group.
  uint64_t lookup_tokens = 0;  // That its sequences asked for so far,
  uint64_t hit_tokens = 0;     // and found.
};

// What the cache has done for prompts since the engine was opened.
struct PrefixStats {
  uint64_t lookups = 0;        // Sequences that began.
  uint64_t lookup_tokens = 0;  // That they asked for,
  uint64_t hit_tokens = 0;     // and found.
  uint64_t copied_tokens = 0;  // Of those, in blocks that were copied.
  uint64_t published_blocks = 0;
  uint64_t duplicate_blocks = 0;  // Computed although another block has the same tokens.
  uint64_t evicted_blocks = 0;
  uint64_t pinned_bytes = 0;  // By Request::keep_seconds, now.
  uint64_t refused_pins = 0;  // Because of pin_limit_bytes, or of what runs.
  // Sums of the fields of RequestStats over all requests that have begun.
  uint64_t first_time_tokens = 0;
  uint64_t diverged_tokens = 0;
  uint64_t evicted_tokens = 0;
  uint64_t last_tokens = 0;
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
  PrefixStats prefix;
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
