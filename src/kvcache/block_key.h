// BlockKey: what the bytes of a block depend on, as one SHA-256. Equal keys mean equal bytes, in every process and on
// every machine. docs/formats/block_key.md has the bytes that are hashed; golden vectors hold them fast.
//
// Keys are a chain: a root for each (configuration, layer group, salt), then one key per block out of its parent's key
// and its own tokens. So the key of a block stands for all tokens up to its end.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/kv_view.h"
#include "kernels/numerics_version.h"
#include "kvern/options.h"
#include "kvern/tokenizer.h"

namespace kvern {

struct BlockKey {
  std::array<uint8_t, 32> bytes = {};
  auto operator<=>(const BlockKey&) const = default;
};

// The bytes of a key are as good as random: any of them will do.
struct BlockKeyHash {
  size_t operator()(const BlockKey& key) const {
    size_t hash;
    std::memcpy(&hash, key.bytes.data(), sizeof(hash));
    return hash;
  }
};

// Whose a block is, as PrefixCache numbers them.
struct BlockOwner {
  uint32_t salt = 0;    // Whoever has it may use the block
  uint32_t client = 0;  // that this one has computed.
  bool operator==(const BlockOwner&) const = default;
};

// Rotary embedding of a layer group, overrides applied.
struct RopeKeyFields {
  uint32_t dim = 0;
  double base = 0;
  double linear_factor = 1;
  std::vector<float> factors = {};
};

struct GroupKeyFields {
  uint32_t num_layers = 0;
  uint32_t num_kv_heads = 0;
  uint32_t head_dim = 0;
  RopeKeyFields rope = {};
  uint32_t window = 0;       // As AttentionSpan::window.
  bool sees_pinned = false;  // As KvGroup::sees_pinned.
};

// All that the bytes of a block depend on besides group, salt and tokens. A layer's input has passed the layers of
// every group, so each block depends on what all of them see. Placement, threads, chunks and target change no bit and
// are left out.
struct KeyFields {
  std::string model_digest = {};  // As ModelDigest: weights, tokenizer, shapes.
  uint32_t numerics_version = kNumericsVersion;
  ActivationMode activations = ActivationMode::kInt8;
  KvType k_type = KvType::kF16;
  KvType v_type = KvType::kF16;
  uint32_t block_size = 0;
  std::vector<GroupKeyFields> groups = {};
  std::vector<PositionRange> pinned = {};  // As KvCacheSpec::pinned.
};

// The parent of the first block of every sequence. `salt` separates tenants: no key of one is a key of another.
BlockKey RootKey(const KeyFields& fields, uint32_t group, std::string_view salt);
// The key of the block that holds `tokens` after what `parent` stands for.
BlockKey ChainKey(const BlockKey& parent, std::span<const TokenId> tokens);

// 64 hexadecimal digits.
std::string HexOf(const BlockKey& key);

}  // namespace kvern
