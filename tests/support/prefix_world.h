// A small KV cache with a PrefixCache, and sequences that run through it as the engine runs them: for tests.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <numeric>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "kvcache/prefix_cache.h"

namespace kvern::prefix_world {

inline constexpr uint32_t kBlockSize = 16;

using Tokens = std::vector<TokenId>;

// `count` tokens that count up from `first`.
inline Tokens Range(TokenId first, size_t count) {
  Tokens tokens(count);
  std::iota(tokens.begin(), tokens.end(), first);
  return tokens;
}

inline Tokens operator+(Tokens a, const Tokens& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

struct Setup {
  std::vector<uint32_t> windows = {0};  // One for each layer group; 0: sees all.
  uint64_t num_blocks = 32;             // In each.
  const Placement* placement = &PagedPlacement();
  std::string_view policy = "lru";
  uint32_t max_step_tokens = 512;
};

class World {
 public:
  explicit World(const Setup& setup = {}) {
    KvCacheSpec spec;
    spec.placement = setup.placement;
    spec.max_step_tokens = setup.max_step_tokens;
    KeyFields fields = {.model_digest = "m", .block_size = kBlockSize, .groups = {}, .pinned = {}};
    for (const uint32_t window : setup.windows) {
      const BlockLayout layout = BlockLayout::Create({1, 1, 16}, kBlockSize, KvType::kF16, KvType::kF16).value();
      spec.groups.push_back({.layout = layout, .window = window, .num_blocks = setup.num_blocks});
      fields.groups.push_back({.window = window});
    }
    cache = KvCache::Create(std::move(spec), HeapAllocator()).value();
    prefix = PrefixCache::Create(*cache, std::move(fields), setup.policy).value();
  }

  std::unique_ptr<KvCache> cache;
  std::unique_ptr<PrefixCache> prefix;
};

// A sequence as the engine runs it.
struct Runner {
  Runner(World& of, Tokens all, std::string_view salt = "", uint64_t max_tokens = 512)
      : world(of), tokens(std::move(all)), chain(of.prefix->NewChain(salt)), sequence(*of.cache, max_tokens) {}

  PrefixMatch Acquire() { return world.prefix->Acquire(tokens, tokens.size() - 1, chain, sequence); }
  // Computes up to `num_tokens`, in steps of `step`.
  void ComputeTo(uint64_t num_tokens, uint64_t step = 512) {
    while (sequence.num_tokens() < num_tokens) {
      const uint64_t count = std::min(step, num_tokens - sequence.num_tokens());
      ASSERT_TRUE(world.prefix->MakeRoom(sequence.NumMissing(sequence.num_tokens() + count)));
      ASSERT_TRUE(sequence.Reserve(sequence.num_tokens() + count).ok());
      world.prefix->Commit(tokens, count, chain, sequence);
    }
  }
  void Compute() { ComputeTo(tokens.size()); }
  void Finish() { world.prefix->Finish(tokens, chain, sequence); }

  World& world;
  Tokens tokens;
  KeyChain chain;
  SequenceCache sequence;
};

inline void RunOnce(World& world, const Tokens& tokens, std::string_view salt = "") {
  Runner runner(world, tokens, salt);
  runner.Acquire();
  runner.Compute();
  runner.Finish();
}

inline uint64_t NumCached(World& world, const Tokens& tokens, std::string_view salt = "") {
  KeyChain chain = world.prefix->NewChain(salt);
  return world.prefix->Match(tokens, tokens.size(), chain).num_tokens;
}

}  // namespace kvern::prefix_world
