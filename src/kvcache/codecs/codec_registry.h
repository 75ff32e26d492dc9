// The codecs of K and V rows: what each is called and what it costs. A new codec is its own file and one line here.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "kvern/options.h"

namespace kvern {

struct CodecInfo {
  KvType type;
  std::string_view name;  // As options and reports write it.
  uint32_t bytes_per_value;
};

// In the order of KvType.
std::span<const CodecInfo> AllCodecs();
const CodecInfo& GetCodec(KvType type);

}  // namespace kvern
