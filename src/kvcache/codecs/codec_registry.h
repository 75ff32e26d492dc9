// The codecs of K and V rows: what each is called, what it costs and what it needs. A new codec is its own file in
// kernels/inl, its shape in kernels/kv_codec.h and one line here (docs/extending.md).
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "kvern/options.h"

namespace kvern {

struct CodecInfo {
  KvType type;
  std::string_view name;         // As options and reports write it.
  std::string_view description;  // For people who choose one.
  bool is_lossy;                 // Whether it is coarser than the f16 that models keep their K and V in.
  uint32_t max_head_dim;         // Beyond it, sums of integers would not fit.
};

// In the order of KvType.
std::span<const CodecInfo> AllCodecs();
const CodecInfo& GetCodec(KvType type);

// kUnsupported with the rule where rows of head_dim values (a multiple of 16) cannot be stored so.
Status CheckHeadDim(KvType type, uint32_t head_dim);

// Bits for each value of a row with its share of scales; what rounds them up to whole cache lines is left out.
double BitsPerValue(KvType type, uint32_t head_dim);

}  // namespace kvern
