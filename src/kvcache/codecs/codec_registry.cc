#include "kvcache/codecs/codec_registry.h"

#include <array>
#include <string>

#include "base/check.h"
#include "kernels/kv_codec.h"
#include "kvern/model_info.h"

namespace kvern {
namespace {

constexpr uint32_t kNoLimit = UINT32_MAX;
// 16256 * 128 * 1024 is the largest sum of products of a query and a row of codes that an int32 holds.
constexpr uint32_t kMaxIntegerDims = 1024;

constexpr std::array kCodecs = {
    CodecInfo{KvType::kF32, "f32", "as computed: nothing is rounded", false, kNoLimit},
    CodecInfo{KvType::kF16, "f16", "half the bytes of f32; the default", false, kNoLimit},
    CodecInfo{KvType::kBF16, "bf16", "the range of f32 with 8 bits of precision", false, kNoLimit},
    CodecInfo{KvType::kF8E4M3, "fp8_e4m3", "8-bit floats of 4 bits of precision, a scale for each row", true, kNoLimit},
    CodecInfo{KvType::kF8E5M2, "fp8_e5m2", "8-bit floats of 3 bits of precision, a scale for each row", true, kNoLimit},
    CodecInfo{KvType::kI8, "int8", "8-bit integers, a scale for each row; rotated keys", true, kMaxIntegerDims},
    CodecInfo{KvType::kI4, "int4", "4-bit integers of rotated rows, a scale for each 32", true, kMaxIntegerDims},
    CodecInfo{KvType::kI4Head, "int4_head", "4-bit integers of rotated rows, a scale for each row: faster, coarser",
              true, kMaxIntegerDims},
};

constexpr bool IsInTheOrderOfKvType() {
  for (size_t i = 0; i < kCodecs.size(); ++i) {
    if (kCodecs[i].type != static_cast<KvType>(i)) return false;
  }
  return true;
}
static_assert(IsInTheOrderOfKvType());

}  // namespace

std::span<const CodecInfo> AllCodecs() { return kCodecs; }

const CodecInfo& GetCodec(KvType type) {
  KVERN_CHECK(static_cast<size_t>(type) < kCodecs.size());
  return kCodecs[static_cast<size_t>(type)];
}

std::string_view KvTypeName(KvType type) { return GetCodec(type).name; }

std::vector<KvType> AllKvTypes() {
  std::vector<KvType> types;
  for (const CodecInfo& codec : kCodecs) types.push_back(codec.type);
  return types;
}

Result<KvType> ParseKvType(std::string_view name) {
  std::string known;
  for (const CodecInfo& codec : kCodecs) {
    if (codec.name == name) return codec.type;
    known += (known.empty() ? "" : ", ") + std::string(codec.name);
  }
  return Status::InvalidArgument("unknown KV type '" + std::string(name) + "', expected one of: " + known);
}

Status CheckHeadDim(KvType type, uint32_t head_dim) {
  const CodecInfo& codec = GetCodec(type);
  const std::string refusal =
      "KV type " + std::string(codec.name) + " cannot store heads of " + std::to_string(head_dim) + " values: ";
  if (ShapeOf(type).rotation == KvRotation::kAll && !HasRotation(head_dim)) {
    return Status::Unsupported(refusal + "its rotation needs a power of two of at least 32; use int8 for this model");
  }
  if (head_dim > codec.max_head_dim) {
    return Status::Unsupported(refusal + "expected at most " + std::to_string(codec.max_head_dim) +
                               "; use f16 for this model");
  }
  return Status::Ok();
}

double BitsPerValue(KvType type, uint32_t head_dim) {
  return ShapeOf(type).bits + 16.0 * NumKvScales(type, head_dim) / head_dim;
}

}  // namespace kvern
