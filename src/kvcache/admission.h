// Admission: whether one more sequence can be finished beside those that run, whatever each of them still leases on its
// longest course. Where it always says yes before one begins, nothing that runs ever finds too few blocks.
//
// Where rows see all and blocks are shared, a shared block counts once: what the running ones may still lease must fit
// what is free or idle. Elsewhere each sequence counts with the most that it ever holds, since one may give a shared
// block back and lease another while others still hold it.
//
// Made anew for each decision: Count what runs, then ask.
#pragma once

#include <cstdint>

#include "kvcache/kv_cache.h"
#include "kvcache/prefix_cache.h"
#include "kvcache/sequence_cache.h"

namespace kvern {

class Admission {
 public:
  // pinned: what leases besides those of sequences hold (PrefixPins::num_blocks). `cache` must outlive it.
  Admission(KvCache& cache, const BlockCounts& pinned);

  // A sequence runs and may come to `max_tokens`.
  void Count(const SequenceCache& sequence, uint64_t max_tokens);
  // One will begin as a fork of another that runs, at `num_tokens`.
  void CountFork(uint64_t num_tokens, uint64_t max_tokens) {
    promised_ = Sum(promised_, ForkNeed(num_tokens, max_tokens));
  }

  // Whether one that begins with `match` (which may be of nothing) and may come to `max_tokens`, and `num_forks` forks
  // of it at `fork_tokens`, can be finished too.
  bool Fits(const PrefixMatch& match, uint64_t max_tokens, uint64_t num_forks = 0, uint64_t fork_tokens = 0) const;
  // Whether `match` can be pinned.
  bool FitsPin(const PrefixMatch& match) const;

 private:
  bool CountsOnce(size_t group) const;
  BlockCounts ForkNeed(uint64_t num_tokens, uint64_t max_tokens) const;

  KvCache& cache_;
  BlockCounts room_ = {};      // Before anything is promised.
  BlockCounts promised_ = {};  // To what was counted.
};

}  // namespace kvern
