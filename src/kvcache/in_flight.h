// InFlight: which blocks are being computed, and by whom, so that a second request for one can wait for it. Bounded by
// what the owners ask for. Engine thread only.
#pragma once

#include <cstdint>
#include <optional>
#include <unordered_map>
#include <vector>

#include "kvcache/block_key.h"

namespace kvern {

class InFlight {
 public:
  // `owner` computes the block of `key` from now on, unless somebody does already.
  void Begin(const BlockKey& key, uint64_t owner) {
    if (owners_.try_emplace(key, owner).second) keys_[owner].push_back(key);
  }
  std::optional<uint64_t> OwnerOf(const BlockKey& key) const {
    const auto found = owners_.find(key);
    return found == owners_.end() ? std::nullopt : std::optional(found->second);
  }
  // The block of `key` is there.
  void End(const BlockKey& key) { owners_.erase(key); }
  // `owner` computes nothing any more: whoever waits for it may take over.
  void EndAll(uint64_t owner) {
    const auto found = keys_.find(owner);
    if (found == keys_.end()) return;
    for (const BlockKey& key : found->second) {
      const auto entry = owners_.find(key);
      if (entry != owners_.end() && entry->second == owner) owners_.erase(entry);
    }
    keys_.erase(found);
  }
  size_t size() const { return owners_.size(); }

 private:
  std::unordered_map<BlockKey, uint64_t, BlockKeyHash> owners_;
  std::unordered_map<uint64_t, std::vector<BlockKey>> keys_;  // That each owner began; some may have ended.
};

}  // namespace kvern
