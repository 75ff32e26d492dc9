#include "kvern/options.h"

#include <string>

namespace kvern {
namespace {

constexpr uint32_t kMinBlockSize = 16;
constexpr uint32_t kMaxBlockSize = 4096;
constexpr uint32_t kMaxPrefillChunk = 1u << 16;
constexpr uint32_t kMaxThreads = 1024;
constexpr uint32_t kMaxSequences = 4096;
constexpr uint32_t kMaxQueued = 1u << 20;

Status CheckRange(const char* name, uint32_t value, uint32_t min, uint32_t max) {
  if (value >= min && value <= max) return Status::Ok();
  return Status::InvalidArgument(std::string(name) + " is " + std::to_string(value) + ", expected " +
                                 std::to_string(min) + " to " + std::to_string(max));
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
  KVERN_RETURN_IF_ERROR(CheckKvType("k_type", k_type));
  return CheckKvType("v_type", v_type);
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
