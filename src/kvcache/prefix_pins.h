// PrefixPins: cached prefixes that somebody asked to keep for a time. A pin is a lease like a sequence's: its blocks
// are full, so no policy sees them. Time comes from the caller. Engine thread only.
#pragma once

#include <cstdint>
#include <vector>

#include "kvcache/prefix_cache.h"
#include "kvern/status.h"

namespace kvern {

class PrefixPins {
 public:
  // All pins together hold at most `limit_bytes`, blocks in several of them counted once. `cache` must outlive them.
  PrefixPins(KvCache& cache, uint64_t limit_bytes);

  // Keeps the blocks of `match` until `expires_us`; a pin of the same blocks is prolonged. kResourceExhausted (and no
  // change) beyond the limit, with the bytes asked for, held and allowed.
  Status Pin(const PrefixMatch& match, uint64_t expires_us);
  // Ends the pins whose time has come at `now_us`.
  void Expire(uint64_t now_us);
  // Ends the pins of blocks that can be found no more (PrefixCache::Clear).
  void EndForgotten();
  void Clear();

  size_t num_pins() const { return pins_.size(); }
  uint64_t num_bytes() const { return num_bytes_; }
  // What pins hold: memory that cannot be promised to sequences.
  const BlockCounts& num_blocks() const { return num_blocks_; }

 private:
  static constexpr size_t kMaxPins = 4096;
  struct Held {
    std::vector<BlockLease> leases;  // One for each layer group.
    uint64_t num_tokens;
    uint64_t expires_us;
  };
  Held* FindSame(const PrefixMatch& match);
  uint64_t NewBytes(const PrefixMatch& match) const;
  void End(const Held& pin);
  // Ends the pins for which fn(const Held&) says so.
  template <typename Fn>
  void EndIf(Fn fn);

  KvCache& cache_;
  const uint64_t limit_bytes_;
  std::vector<Held> pins_;
  std::vector<std::vector<uint32_t>> pins_of_block_;  // [group][block]
  BlockCounts num_blocks_ = {};
  uint64_t num_bytes_ = 0;
};

}  // namespace kvern
