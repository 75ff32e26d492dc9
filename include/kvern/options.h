// EngineOptions: everything that is chosen when a model is opened. Each struct checks itself with Validate().
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "kvern/status.h"

namespace kvern {

// How the values of K or V rows are stored.
enum class KvType : uint8_t { kF32, kF16, kBF16, kF8E4M3, kF8E5M2, kI8, kI4, kI4Head };
// "f32", "f16", "bf16", "fp8_e4m3", "fp8_e5m2", "int8", "int4", "int4_head".
std::string_view KvTypeName(KvType type);
// kInvalidArgument for another name; the message lists the known ones.
Result<KvType> ParseKvType(std::string_view name);

// How activations enter the products with integer weights.
enum class ActivationMode : uint8_t {
  kInt8,  // Quantised to int8 per 32 values, as the field does: fast.
  kF32,   // Kept as they are: the reference.
};

// Positions [begin, end) of a sequence.
struct TokenRange {
  uint32_t begin = 0, end = 0;
};

struct CacheOptions {
  bool is_enabled =
      true;  // Off: every step computes the keys and values of all tokens again (a baseline to compare with).
  uint64_t budget_bytes = 0;     // Bytes for K and V of all sequences together; 0: as budget_contexts says.
  uint32_t budget_contexts = 1;  // What so many sequences of context_tokens need.
  // Memory of the budget is made present ahead, once the weights are loaded and while no request runs.
  // Off: pages come when the first tokens are stored in them, and cost time then.
  bool prefaults = false;
  uint32_t block_size = 64;  // Tokens per block; a multiple of 16, at most 4096.
  KvType k_type = KvType::kF16;
  KvType v_type = KvType::kF16;
  // How the tokens of a sequence lie in memory; all give the same answer (docs/extending.md).
  //   "paged": blocks as it grows. "contiguous": its longest course at once. "growing": a run of blocks that doubles.
  //   "ring": a fixed size, for layers that see a window.
  std::string placement = "paged";
  // Tokens that a row sees, its own included; 0: all, or what the model's own layers see. The cache then holds no more
  // than that for each sequence, and a sequence may grow without end.
  uint32_t window_tokens = 0;
  uint32_t num_sinks = 0;                 // First tokens that stay in sight of layers that see all in the model.
  std::vector<TokenRange> global_tokens;  // Further ones that do. Both need a window.
  // Blocks stay when their sequence ends, idle, and later sequences that begin with the same tokens begin with them:
  // nothing of a prefix is computed twice while it stands in the cache. Idle blocks make room for whatever runs. With
  // the placement "paged"; others keep nothing.
  bool reuses_prefixes = true;
  std::string eviction_policy = "slru";  // Which idle blocks make room first: "slru", or "lru" (bench/replay).
  uint64_t pin_limit_bytes = 0;          // Most bytes that Request::keep_seconds may hold; 0: a quarter of the budget.
  // Requests are admitted by what they need now instead of the longest answer that they allow. Where they outgrow the
  // budget together, the last ones give their blocks back, which stay while there is room, and go on later.
  bool overcommits = false;
  // A directory for blocks of sequences that wait while others use their memory, in a file without a name; "": none.
  // Implies overcommits: what a sequence gives back then goes to the file and is never computed again.
  std::string spill_directory;
  uint64_t spill_limit_bytes = 8ull << 30;
  Status Validate() const;
};

struct EngineOptions {
  std::string model_path;       // A GGUF file. Required.
  uint32_t context_tokens = 0;  // Longest sequence, prompt and generated tokens; 0: the model's, at most 8192, or no
                                // limit with a window whose placement gives back what is behind it.
  uint32_t num_threads = 0;     // Workers; 0: one per CPU that the process may use. More than those are refused.
  std::string isa = "auto";     // Kernel target: auto, generic, avx2, avx2-vnni, avx512, avx512-vnni, neon.
  ActivationMode activations = ActivationMode::kInt8;
  uint32_t prefill_chunk = 512;  // Most prompt tokens per step.
  // While answers stream, fewer prompt tokens go into a step, so that it takes about so long; 0: no limit.
  uint32_t step_budget_ms = 50;
  uint32_t max_sequences = 32;  // Requests that run at once, if the budget holds them; more wait in the queue.
  uint32_t max_queued = 64;     // Requests that may wait; more are refused.
  CacheOptions cache;
  Status Validate() const;
};

}  // namespace kvern
