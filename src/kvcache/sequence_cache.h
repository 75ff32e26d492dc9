// SequenceCache: the keys and values of one sequence: a block table for each layer group, all of the same tokens.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "kvcache/kv_cache.h"

namespace kvern {

class SequenceCache {
 public:
  // For a sequence of up to `max_tokens`. `cache` must outlive it.
  SequenceCache(KvCache& cache, uint64_t max_tokens);
  SequenceCache(SequenceCache&&) noexcept = default;

  // What BlockTable says of each, for all layer groups. Where Reserve fails in one, others keep the room they have got;
  // where Truncate does, others may have forgotten their tokens, and only Release is left.
  Status Adopt(std::span<const std::vector<BlockIndex>> cached, uint64_t num_tokens);  // One for each layer group.
  Status Fork(const SequenceCache& other);
  Status Reserve(uint64_t num_tokens);
  void Commit(uint64_t count);
  void MarkComputed(uint64_t count);
  void DropUnseen();
  Status Truncate(uint64_t num_tokens);
  Status Restore(uint64_t num_tokens);
  void Release();
  // Takes over all that `other`, of the same cache and length, holds; this one must be empty, and `other` then is.
  void TakeOver(SequenceCache& other);

  uint64_t num_tokens() const { return tables_[0]->num_tokens(); }  // Computed.
  uint64_t num_bytes() const;                                       // Of the blocks held.
  BlockCounts NumMissing(uint64_t num_tokens) const;
  const BlockTable& table(size_t group) const { return *tables_[group]; }
  size_t num_groups() const { return tables_.size(); }

 private:
  std::vector<std::unique_ptr<BlockTable>> tables_;  // One per layer group.
};

}  // namespace kvern
