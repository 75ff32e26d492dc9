// PrefixCache: finds what a new sequence need not compute, because others with the same beginning have computed it. It
// joins the layer groups: n tokens are cached where every group has what a row at position n sees. All tokens where
// rows see all, else those in the window and the pinned ones.
//
//   admission   chain = NewChain(salt);  Acquire(tokens, ...)        the sequence's table begins with cached blocks
//   each step   MakeRoom, SequenceCache::Reserve, compute, Commit    blocks that became full can be found from now on
//   end         Finish                                               what the sequence holds stays, idle
//
// Placements that share blocks publish them as soon as they are full and begin with those of others; the rest of the
// last one is copied. Those whose blocks stand together (contiguous, growing) publish theirs at the end and begin with
// copies, where there is room for both. A ring overwrites its blocks and takes no part.
// Engine thread only, like all of the cache.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kvcache/group_cache.h"
#include "kvcache/in_flight.h"
#include "kvcache/key_chain.h"
#include "kvcache/kv_cache.h"
#include "kvcache/sequence_cache.h"
#include "kvern/stats.h"

namespace kvern {

struct PrefixMatch {
  uint64_t num_tokens = 0;  // Cached for all layer groups.
  // Of those, the last ones, in a block that they do not fill: it has to be copied.
  uint64_t num_partial_tokens = 0;
  // For each layer group a block table of num_tokens tokens, as BlockTable::Adopt wants it.
  std::vector<std::vector<BlockIndex>> blocks = {};
  BlockCounts num_idle = {};    // Blocks that nobody leases now, the one to copy too: not room for anything else.
  BlockCounts num_leased = {};  // Whole blocks that others lease: a hit costs no memory.
};

// How the tokens of a prompt came to be computed or not; they add up to those of the prompt.
struct PrefixAudit {
  uint64_t reused = 0;
  uint64_t first_time = 0;
  uint64_t evicted = 0;     // Were there and had to leave, in some layer group.
  uint64_t diverged = 0;    // After the point at which a cached sequence goes on otherwise.
  uint64_t last_token = 0;  // Is always computed, for its logits: 1 where all others are reused.
  std::optional<PromptDivergence> divergence;
};

struct PrefixCounters {
  uint64_t lookups = 0;        // Acquire calls.
  uint64_t lookup_tokens = 0;  // That they asked for,
  uint64_t hit_tokens = 0;     // and got.
  uint64_t copied_tokens = 0;  // Of those, in blocks that were copied.
  uint64_t published = 0;      // Blocks.
  uint64_t duplicates = 0;     // Blocks computed although others have the same tokens.
  BlockCounts evicted = {};
};

class PrefixCache {
 public:
  // `fields`: as block_key.h; groups must be those of `cache`, which must outlive it. kInvalidArgument for an unknown
  // policy.
  static Result<std::unique_ptr<PrefixCache>> Create(KvCache& cache, KeyFields fields, std::string_view policy);

  // Keys for one sequence. Sequences of different salts share nothing; of one salt but different clients, they share
  // blocks and are not told of each other's tokens.
  KeyChain NewChain(std::string_view salt, std::string_view client = {});

  // The longest cached beginning of `tokens`, at most `max_tokens`: one less than a prompt has, whose last token gives
  // the logits. Changes nothing but `chain`, which gets the keys of `tokens`. Valid until anything is leased, published
  // or evicted.
  PrefixMatch Match(std::span<const TokenId> tokens, uint64_t max_tokens, KeyChain& chain) const;
  // What Acquire would give now: a shorter one where there is no room for what has to be copied.
  PrefixMatch MatchWithRoom(std::span<const TokenId> tokens, uint64_t max_tokens, KeyChain& chain,
                            const SequenceCache& sequence) const;
  // Lets `sequence`, which must be empty, begin with the match for which there is room; makes that room. Returns it,
  // num_tokens = sequence.num_tokens().
  PrefixMatch Acquire(std::span<const TokenId> tokens, uint64_t max_tokens, KeyChain& chain, SequenceCache& sequence);
  // The same for a sequence that was preempted: what it finds of itself counts as neither lookup nor hit.
  PrefixMatch Reacquire(std::span<const TokenId> tokens, uint64_t max_tokens, KeyChain& chain, SequenceCache& sequence);
  // In place of SequenceCache::Fork: makes room for what is copied. The chain is copied by the caller.
  Status Fork(const SequenceCache& from, SequenceCache& to);
  // Why the tokens of a prompt after `match` must be computed. Before any of them is.
  PrefixAudit Explain(std::span<const TokenId> prompt, const PrefixMatch& match, const KeyChain& chain) const;

  // In place of SequenceCache::Commit: `count` more of `tokens` have been computed.
  void Commit(std::span<const TokenId> tokens, uint64_t count, KeyChain& chain, SequenceCache& sequence);
  // `sequence` has its blocks back from a second memory: they can be found again. Counts as nothing computed.
  void PublishRestored(std::span<const TokenId> tokens, KeyChain& chain, SequenceCache& sequence);
  // In place of SequenceCache::Release at the end of a sequence, or where it is preempted: what it holds stays in the
  // cache, its last tokens too, which do not fill a block.
  void Finish(std::span<const TokenId> tokens, KeyChain& chain, SequenceCache& sequence);

  // Evicts idle blocks, as few as needed, until `count` blocks are free. False where even all of them are too few.
  bool MakeRoom(size_t group, uint64_t count);
  bool MakeRoom(const BlockCounts& counts);
  BlockCounts AvailableBlocks() const;  // Free or idle.

  // Single flight. Whoever computes a prompt says so from where its match ends; Commit ends it block by block,
  // EndCompute where the sequence ends, however it does. Nothing is in flight where a placement publishes at the end
  // only: nobody could wait that long.
  void BeginCompute(const PrefixMatch& match, const KeyChain& chain, uint64_t owner);
  void EndCompute(uint64_t owner) { in_flight_.EndAll(owner); }
  // Who computes the block that comes after `match`, of the prompt of `chain`.
  std::optional<uint64_t> ComputedBy(const PrefixMatch& match, const KeyChain& chain) const;

  // Idle blocks become free and full ones will; of one tenant or of all. Returns the bytes that became free.
  uint64_t Clear(std::optional<std::string_view> salt);
  std::vector<TenantHolding> Holdings() const;
  PrefixCounters Counters() const;
  uint64_t block_size() const { return fields_.block_size; }
  // What is cached of one layer group, for looking only.
  const GroupCache& group(size_t group) const { return *groups_[group]; }

 private:
  PrefixCache(KvCache& cache, KeyFields fields, const Placement& placement)
      : cache_(cache), fields_(std::move(fields)), placement_(placement) {}

  class Matcher;
  struct Tenant {
    uint32_t number;  // As BlockOwner::salt: from 0, in the order in which they came.
    std::vector<BlockKey> roots;
  };
  void Publish(std::span<const TokenId> tokens, KeyChain& chain, SequenceCache& sequence);
  void PublishEnd(std::span<const TokenId> tokens, const KeyChain& chain, SequenceCache& sequence);
  // Whether some layer group has the whole block `i` of the tokens of `chain`, or had it not long ago.
  bool WasThere(const KeyChain& chain, uint64_t i) const;
  // Free blocks that a table needs to begin with `num_tokens` tokens of another.
  BlockCounts NumCopied(uint64_t num_tokens, const SequenceCache& sequence) const;

  KvCache& cache_;
  const KeyFields fields_;
  const Placement& placement_;
  std::vector<std::unique_ptr<GroupCache>> groups_;
  std::map<std::string, Tenant, std::less<>> tenants_;  // By salt; the operator's, so there are few.
  struct TenantUse {
    uint64_t lookup_tokens = 0, hit_tokens = 0;
  };
  std::vector<TenantUse> uses_;                           // By the number of the tenant.
  std::map<std::string, uint32_t, std::less<>> clients_;  // As BlockOwner::client.
  InFlight in_flight_;
  PrefixCounters counters_;
};

}  // namespace kvern
