#include "kvcache/codecs/codec_registry.h"

#include <array>
#include <string>

#include "base/check.h"
#include "kernels/kv_view.h"
#include "kvern/model_info.h"

namespace kvern {
namespace {

constexpr std::array kCodecs = {
    CodecInfo{KvType::kF32, "f32", 4},
    CodecInfo{KvType::kF16, "f16", 2},
};

static_assert(kCodecs[0].bytes_per_value == KvElementBytes(KvType::kF32));
static_assert(kCodecs[1].bytes_per_value == KvElementBytes(KvType::kF16));

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

}  // namespace kvern
