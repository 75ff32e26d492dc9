#include "kvern/options.h"

#include <string>

#include "kvcache/placement/placement_registry.h"
#include "kvcache/policies/policy_registry.h"

namespace kvern {
namespace {

constexpr uint32_t kMinBlockSize = 16;
constexpr uint32_t kMaxBlockSize = 4096;
constexpr uint32_t kMaxPrefillChunk = 1u << 16;
constexpr uint32_t kMaxThreads = 1024;
constexpr uint32_t kMaxSequences = 4096;
constexpr uint32_t kMaxQueued = 1u << 20;
constexpr uint32_t kMaxWindow = 1u << 26;  // As positions below.
constexpr uint32_t kMaxGlobalRanges = 256;

Status CheckRange(const char* name, uint32_t value, uint32_t min, uint32_t max) {
  if (value >= min && value <= max) return Status::Ok();
  return Status::InvalidArgument(std::string(name) + " is " + std::to_string(value) + ", expected " +
                                 std::to_string(min) + " to " + std::to_string(max));
}

Status CheckWindow(const CacheOptions& cache) {
  if (cache.window_tokens == 0) {
    if (cache.num_sinks == 0 && cache.global_tokens.empty()) return Status::Ok();
    return Status::InvalidArgument(
        "sinks and global tokens stay in sight when a window moves on; without a window all tokens do");
  }
  KVERN_RETURN_IF_ERROR(CheckRange("window_tokens", cache.window_tokens, 1, kMaxWindow));
  if (cache.window_tokens < cache.block_size) {
    return Status::InvalidArgument("window_tokens is " + std::to_string(cache.window_tokens) +
                                   ", smaller than a block of " + std::to_string(cache.block_size) +
                                   " tokens: take a wider window or a smaller block_size");
  }
  if (cache.window_tokens < cache.num_sinks) {
    return Status::InvalidArgument("window_tokens is " + std::to_string(cache.window_tokens) +
                                   ", smaller than the sinks, " + std::to_string(cache.num_sinks));
  }
  KVERN_RETURN_IF_ERROR(
      CheckRange("number of global ranges", static_cast<uint32_t>(cache.global_tokens.size()), 0, kMaxGlobalRanges));
  for (const TokenRange& range : cache.global_tokens) {
    if (range.begin < range.end && range.end <= kMaxWindow) continue;
    return Status::InvalidArgument("global tokens from " + std::to_string(range.begin) + " to before " +
                                   std::to_string(range.end) + ", expected a range that is not empty and ends by " +
                                   std::to_string(kMaxWindow));
  }
  return Status::Ok();
}

Status CheckKvType(const char* name, KvType type) {
  if (type <= KvType::kI4Head) return Status::Ok();
  return Status::InvalidArgument(std::string(name) + " is no KvType: " + std::to_string(static_cast<int>(type)));
}

}  // namespace

Status CacheOptions::Validate() const {
  if (block_size < kMinBlockSize || block_size > kMaxBlockSize || block_size % kMinBlockSize != 0) {
    return Status::InvalidArgument("block_size is " + std::to_string(block_size) + ", expected a multiple of " +
                                   std::to_string(kMinBlockSize) + " up to " + std::to_string(kMaxBlockSize));
  }
  KVERN_RETURN_IF_ERROR(CheckRange("budget_contexts", budget_contexts, 1, kMaxSequences));
  KVERN_RETURN_IF_ERROR(CheckKvType("k_type", k_type));
  KVERN_RETURN_IF_ERROR(CheckKvType("v_type", v_type));
  KVERN_RETURN_IF_ERROR(FindPlacement(placement).status());
  KVERN_RETURN_IF_ERROR(FindPolicy(eviction_policy).status());
  return CheckWindow(*this);
}

Status EngineOptions::Validate() const {
  if (model_path.empty()) return Status::InvalidArgument("model_path is empty, expected a GGUF file");
  KVERN_RETURN_IF_ERROR(CheckRange("num_threads", num_threads, 0, kMaxThreads));
  KVERN_RETURN_IF_ERROR(CheckRange("prefill_chunk", prefill_chunk, 1, kMaxPrefillChunk));
  KVERN_RETURN_IF_ERROR(CheckRange("max_sequences", max_sequences, 1, kMaxSequences));
  KVERN_RETURN_IF_ERROR(CheckRange("max_queued", max_queued, 0, kMaxQueued));
  if (activations != ActivationMode::kInt8 && activations != ActivationMode::kF32) {
    return Status::InvalidArgument("activations is no ActivationMode: " +
                                   std::to_string(static_cast<int>(activations)));
  }
  return cache.Validate();
}

}  // namespace kvern
