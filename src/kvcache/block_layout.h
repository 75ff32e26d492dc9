// BlockLayout: the bytes of one block, and from that what everything costs. kernels/kv_view.h draws the picture.
#pragma once

#include <cstdint>

#include "kernels/kv_view.h"
#include "kvern/options.h"
#include "kvern/status.h"

namespace kvern {

// What the cache must know of a model.
struct KvShape {
  uint32_t num_layers = 0;
  uint32_t num_kv_heads = 0;
  uint32_t head_dim = 0;  // A multiple of 16.
};

class BlockLayout {
 public:
  // kInvalidArgument where block_size is no multiple of 16 in [16, 4096] or the shape is out of limits; sizes are
  // checked for overflow. kUnsupported where a codec cannot store heads of this size.
  static Result<BlockLayout> Create(const KvShape& shape, uint32_t block_size, KvType k_type, KvType v_type);

  uint32_t block_size() const { return block_size_; }    // Slots.
  uint64_t block_bytes() const { return block_bytes_; }  // A multiple of 64.
  uint64_t bytes_per_token() const;                      // block_bytes / block_size, rounded up.
  const KvShape& shape() const { return shape_; }
  KvType k_type() const { return k_type_; }
  KvType v_type() const { return v_type_; }
  // Blocks that hold `num_tokens` tokens.
  uint64_t BlocksFor(uint64_t num_tokens) const;
  // The kernels' picture of blocks that stand one after the other from `base` on.
  KvView View(uint8_t* base) const;

 private:
  BlockLayout() = default;

  KvShape shape_;
  uint32_t block_size_ = 0;
  KvType k_type_ = KvType::kF16;
  KvType v_type_ = KvType::kF16;
  uint64_t layer_bytes_ = 0;
  uint64_t block_bytes_ = 0;
};

}  // namespace kvern
