#include "kvcache/block_layout.h"

#include <limits>
#include <string>

#include "base/checked_math.h"
#include "kvcache/codecs/codec_registry.h"

namespace kvern {
namespace {

constexpr uint32_t kMaxBlockSize = 4096;
constexpr uint32_t kMaxLayers = 1u << 14;
constexpr uint32_t kMaxKvHeads = 1u << 14;
constexpr uint32_t kMaxHeadDim = 1u << 14;
// K and V of the largest block at 4 bytes a value and a scale: no product of sizes below can overflow.
static_assert(uint64_t{kMaxBlockSize} * kMaxLayers * kMaxKvHeads <=
              std::numeric_limits<uint64_t>::max() / (uint64_t{kMaxHeadDim} * 2 * 4 + 4));

Status CheckRange(const char* what, uint32_t value, uint32_t max) {
  if (value >= 1 && value <= max) return Status::Ok();
  return Status::InvalidArgument(std::string("KV cache: ") + what + " is " + std::to_string(value) +
                                 ", expected 1 to " + std::to_string(max));
}

}  // namespace

Result<BlockLayout> BlockLayout::Create(const KvShape& shape, uint32_t block_size, KvType k_type, KvType v_type) {
  if (block_size < kGranuleSlots || block_size > kMaxBlockSize || block_size % kGranuleSlots != 0) {
    return Status::InvalidArgument("KV cache: block size is " + std::to_string(block_size) +
                                   ", expected a multiple of " + std::to_string(kGranuleSlots) + " up to " +
                                   std::to_string(kMaxBlockSize));
  }
  KVERN_RETURN_IF_ERROR(CheckRange("number of layers", shape.num_layers, kMaxLayers));
  KVERN_RETURN_IF_ERROR(CheckRange("number of KV heads", shape.num_kv_heads, kMaxKvHeads));
  KVERN_RETURN_IF_ERROR(CheckRange("head size", shape.head_dim, kMaxHeadDim));
  if (shape.head_dim % 16 != 0) {
    return Status::InvalidArgument("KV cache: head size is " + std::to_string(shape.head_dim) +
                                   ", expected a multiple of 16");
  }
  KVERN_RETURN_IF_ERROR(CheckHeadDim(k_type, shape.head_dim));
  KVERN_RETURN_IF_ERROR(CheckHeadDim(v_type, shape.head_dim));
  BlockLayout layout;
  layout.shape_ = shape;
  layout.block_size_ = block_size;
  layout.k_type_ = k_type;
  layout.v_type_ = v_type;
  layout.layer_bytes_ =
      uint64_t{block_size / kGranuleSlots} * shape.num_kv_heads * KvHeadGranuleBytes(k_type, v_type, shape.head_dim);
  layout.block_bytes_ = layout.layer_bytes_ * shape.num_layers;
  return layout;
}

uint64_t BlockLayout::bytes_per_token() const { return CeilDiv(block_bytes_, block_size_); }

uint64_t BlockLayout::BlocksFor(uint64_t num_tokens) const {
  return num_tokens / block_size_ + (num_tokens % block_size_ != 0 ? 1 : 0);
}

KvView BlockLayout::View(uint8_t* base) const {
  KvView view;
  view.base = base;
  view.block_stride = block_bytes_;
  view.block_size = block_size_;
  view.num_kv_heads = shape_.num_kv_heads;
  view.head_dim = shape_.head_dim;
  view.k_type = k_type_;
  view.v_type = v_type_;
  view.layer_stride = view.LayOutHeads();
  return view;
}

}  // namespace kvern
