// KeyChain: the keys of one sequence's blocks in every layer group, computed once and as far as its tokens go. The
// sequence owns it beside its tokens; PrefixCache makes and uses it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "kvcache/block_key.h"

namespace kvern {

class KeyChain {
 public:
  KeyChain() = default;  // Of nothing: only to be assigned to.
  // `roots`: one for each layer group.
  KeyChain(std::vector<BlockKey> roots, BlockOwner owner, uint32_t block_size)
      : roots_(std::move(roots)), keys_(roots_.size()), owner_(owner), block_size_(block_size) {}

  // Keys for the whole blocks of `tokens`, of which those it has been given before have not changed.
  void Extend(std::span<const TokenId> tokens) {
    for (size_t i = num_keys(); (i + 1) * block_size_ <= tokens.size(); ++i) {
      for (size_t g = 0; g < keys_.size(); ++g) {
        keys_[g].push_back(ChainKey(parent(g, i), tokens.subspan(i * block_size_, block_size_)));
      }
    }
  }
  // Tokens from `num_tokens` on will be others, or computed anew.
  void Truncate(uint64_t num_tokens) {
    for (auto& keys : keys_) keys.resize(std::min<size_t>(keys.size(), num_tokens / block_size_));
    num_published_ = std::min(num_published_, num_tokens / block_size_);
  }

  size_t num_keys() const { return keys_.empty() ? 0 : keys_[0].size(); }  // In each layer group.
  const BlockKey& key(size_t group, size_t i) const { return keys_[group][i]; }
  // Of block `i`: the key of the block before it.
  const BlockKey& parent(size_t group, size_t i) const { return i == 0 ? roots_[group] : keys_[group][i - 1]; }
  const BlockOwner& owner() const { return owner_; }

  // Leading blocks that need not be published: they are, or came from there.
  uint64_t num_published() const { return num_published_; }
  void SetPublished(uint64_t num_blocks) { num_published_ = num_blocks; }

 private:
  std::vector<BlockKey> roots_;
  std::vector<std::vector<BlockKey>> keys_;
  BlockOwner owner_;
  uint32_t block_size_ = 1;
  uint64_t num_published_ = 0;
};

}  // namespace kvern
