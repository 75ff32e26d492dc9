// GhostList: the keys of the last blocks that were evicted, so that it can be told why a block has to be computed
// again, and that it was wanted. At most `capacity` keys, the oldest is forgotten first.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "kvcache/block_key.h"

namespace kvern {

class GhostList {
 public:
  explicit GhostList(size_t capacity) : capacity_(capacity) {}

  void Add(const BlockKey& key) {
    if (capacity_ == 0) return;
    slots_[key] = next_;
    if (ring_.size() < capacity_) {
      ring_.push_back(key);
    } else {
      const auto oldest = slots_.find(ring_[next_]);
      // A key that was added again since stands in a later slot.
      if (oldest != slots_.end() && oldest->second == next_ && oldest->first != key) slots_.erase(oldest);
      ring_[next_] = key;
    }
    next_ = (next_ + 1) % capacity_;
  }
  bool Has(const BlockKey& key) const { return slots_.contains(key); }
  void Remove(const BlockKey& key) { slots_.erase(key); }
  size_t size() const { return slots_.size(); }

 private:
  const size_t capacity_;
  size_t next_ = 0;  // The slot of ring_ that is written next.
  std::vector<BlockKey> ring_;
  std::unordered_map<BlockKey, size_t, BlockKeyHash> slots_;  // Key -> its slot.
};

}  // namespace kvern
