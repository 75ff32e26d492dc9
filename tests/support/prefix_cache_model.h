// Drives a PrefixCache by a stream of bytes and holds it against a naive picture of what is cached: for the test with
// random bytes and for the fuzz target alike.
//
// Every slot of every block carries a stamp of all tokens up to its own. So a block that is found under wrong tokens,
// was written to after it was published, or was copied in part only, is seen at once.
#pragma once

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "fuzz/source.h"
#include "kvcache/admission.h"
#include "kvcache/policies/policy_registry.h"
#include "kvcache/prefix_cache.h"
#include "kvcache/prefix_pins.h"

namespace kvern {

class PrefixCacheModel {
 public:
  // Two layer groups, or one with pinned positions, in small pools; which, with which placement and policy, is up to
  // the source.
  explicit PrefixCacheModel(Source& source) : source_(source) {
    const Placement* const placements[] = {&PagedPlacement(), &PagedPlacement(), &ContiguousPlacement(),
                                           &GrowingPlacement()};
    KvCacheSpec spec;
    spec.placement = placements[source.Byte() % std::size(placements)];
    spec.max_step_tokens = kMaxStep;
    KeyFields fields = {.model_digest = "m", .block_size = kBlockSize};
    const bool is_pinned = source.Byte() % 3 == 0;
    is_admitting_ = source.Byte() % 2 == 0;
    const std::vector<uint32_t> windows = is_pinned ? std::vector<uint32_t>{40} : std::vector<uint32_t>{0, 40};
    if (is_pinned) spec.pinned = {{0, 4}, {50, 52}};
    for (const uint32_t window : windows) {
      const BlockLayout layout = BlockLayout::Create({1, 1, 16}, kBlockSize, KvType::kF16, KvType::kF16).value();
      spec.groups.push_back(
          {.layout = layout, .window = window, .sees_pinned = is_pinned, .num_blocks = 14u + source.Byte() % 16});
      fields.groups.push_back({.window = window, .sees_pinned = is_pinned});
    }
    const PolicyEntry& policy = AllPolicies()[source.Byte() % AllPolicies().size()];
    cache_ = KvCache::Create(std::move(spec), HeapAllocator()).value();
    prefix_ = PrefixCache::Create(*cache_, std::move(fields), policy.name).value();
    pins_ = std::make_unique<PrefixPins>(*cache_, 4 * cache_->pool(0).layout().block_bytes());
    known_.resize(cache_->num_groups());
  }

  // Does one thing. What is wrong, or nothing.
  std::optional<std::string> Step() {
    switch (source_.Byte() % 24) {
      case 0:
      case 1:
      case 2: Begin(); break;
      case 3:
        if (Live* const live = PickLive()) ForkOf(*live);
        break;
      case 4:
        if (Live* const live = PickLive()) End(*live, /*is_finished=*/false);
        break;
      case 5:
      case 6:
        if (Live* const live = PickLive()) End(*live, /*is_finished=*/true);
        break;
      case 7: Evict(); break;
      case 8: Pin(); break;
      case 9:
        if (source_.Byte() % 8 == 0) prefix_->Clear(Salt());
        break;
      case 10:
        if (Live* const live = PickLive()) Rewind(*live);
        break;
      case 11:
        if (is_admitting_ && source_.Byte() % 4 == 0) AdvanceAllToTheEnd();
        break;
      default:
        if (Live* const live = PickLive()) Advance(*live);
    }
    CheckAll();
    return error_;
  }

  // Ends everything: no block is lost.
  std::optional<std::string> Finish() {
    while (!live_.empty()) End(*live_.back(), source_.Byte() % 2 == 0);
    pins_->Clear();
    CheckAll();
    prefix_->Clear(std::nullopt);
    const CacheStats stats = cache_->Stats();
    if (stats.free_blocks != stats.total_blocks) Fail("blocks are lost");
    return error_;
  }

  PrefixCounters counters() const { return prefix_->Counters(); }

 private:
  static constexpr uint32_t kBlockSize = 16;
  static constexpr uint32_t kMaxStep = 48;
  static constexpr uint64_t kMaxTokens = 120;
  static constexpr size_t kMaxLive = 10;

  struct Live {
    std::string salt;
    std::vector<TokenId> tokens;
    KeyChain chain;
    SequenceCache sequence;
    uint64_t number;
  };
  // What a cached block holds: all tokens up to its last one.
  struct Record {
    std::string salt;
    std::vector<TokenId> tokens;
    uint64_t begin;  // Position of its first slot.
  };

  void Fail(std::string what) {
    if (!error_.has_value()) error_ = std::move(what);
  }

  std::string Salt() { return source_.Byte() % 4 == 0 ? "b" : "a"; }
  Live* PickLive() { return live_.empty() ? nullptr : live_[source_.Byte() % live_.size()].get(); }
  void AppendRandom(std::vector<TokenId>& tokens, uint64_t count) {
    for (uint64_t i = 0; i < count && tokens.size() < kMaxTokens; ++i) tokens.push_back(source_.Byte() % 2);
  }

  // A prompt that begins like an earlier one.
  std::vector<TokenId> Prompt() {
    std::vector<TokenId> tokens;
    if (!history_.empty() && source_.Byte() % 8 != 0) {
      tokens = history_[source_.Byte() % history_.size()];
      tokens.resize(std::min<size_t>(tokens.size(), 1 + source_.Byte() % kMaxTokens));
    }
    AppendRandom(tokens, 1 + source_.Byte() % 40);
    return tokens;
  }

  void Begin() {
    if (live_.size() >= kMaxLive) return;
    std::string salt = Salt();
    KeyChain chain = prefix_->NewChain(salt);
    live_.push_back(std::unique_ptr<Live>(
        new Live{std::move(salt), Prompt(), std::move(chain), SequenceCache(*cache_, kMaxTokens), next_number_++}));
    Live& live = *live_.back();
    const PrefixMatch match = prefix_->Match(live.tokens, live.tokens.size() - 1, live.chain);
    const PrefixMatch with_room =
        prefix_->MatchWithRoom(live.tokens, live.tokens.size() - 1, live.chain, live.sequence);
    if (is_admitting_ && !CountLive(&live).Fits(with_room, kMaxTokens)) return live_.pop_back();
    const uint64_t expected = NaiveMatch(live.salt, live.tokens, live.tokens.size() - 1);
    if (match.num_tokens != expected) {
      Fail("matched " + std::to_string(match.num_tokens) + " tokens, expected " + std::to_string(expected));
    }
    const PrefixAudit audit = prefix_->Explain(live.tokens, match, live.chain);
    if (audit.reused + audit.first_time + audit.evicted + audit.diverged + audit.last_token != live.tokens.size()) {
      Fail("the audit does not add up");
    }
    const PrefixMatch acquired = prefix_->Acquire(live.tokens, live.tokens.size() - 1, live.chain, live.sequence);
    if (with_room.num_tokens > expected || acquired.num_tokens != with_room.num_tokens ||
        acquired.num_tokens != live.sequence.num_tokens()) {
      Fail("acquired " + std::to_string(acquired.num_tokens));
    }
    prefix_->BeginCompute(acquired, live.chain, live.number);
    Forget();
  }

  void ForkOf(Live& from) {
    if (live_.size() >= kMaxLive) return;
    if (is_admitting_) {
      PrefixMatch shared;
      shared.num_leased = cache_->spec().SharedBlocks(kMaxTokens, from.sequence.num_tokens());
      if (!CountLive(nullptr).Fits(shared, kMaxTokens)) return;
    }
    auto fork = std::unique_ptr<Live>(
        new Live{from.salt, from.tokens, from.chain, SequenceCache(*cache_, kMaxTokens), next_number_++});
    fork->tokens.resize(from.sequence.num_tokens());
    AppendRandom(fork->tokens, 1 + source_.Byte() % 20);
    fork->chain.Truncate(from.sequence.num_tokens());
    const bool is_forked = prefix_->Fork(from.sequence, fork->sequence).ok();
    if (!is_forked && is_admitting_) Fail("no room for a fork that was admitted");
    Forget();
    if (is_forked) live_.push_back(std::move(fork));
  }

  void Advance(Live& live) {
    const uint64_t before = live.sequence.num_tokens();
    if (before == live.tokens.size()) AppendRandom(live.tokens, 1 + source_.Byte() % 20);
    const uint64_t count = std::min<uint64_t>(1 + source_.Byte() % kMaxStep, live.tokens.size() - before);
    if (count == 0) return;
    const BlockCounts missing = live.sequence.NumMissing(before + count);
    const bool fits = FitsInto(missing, prefix_->AvailableBlocks());
    if (prefix_->MakeRoom(missing) != fits) Fail("room is not what is free or idle");
    Forget();
    if (!fits && is_admitting_) Fail("no room for what was admitted");
    if (!fits) return;
    if (!live.sequence.Reserve(before + count).ok()) return Fail("no room for what was made room for");
    for (size_t g = 0; g < cache_->num_groups(); ++g) {
      for (uint64_t p = before; p < before + count; ++p) {
        const uint64_t stamp = Stamp(live.salt, live.tokens, p);
        std::memcpy(Slot(g, live.sequence.table(g).blocks()[p / kBlockSize], p % kBlockSize), &stamp, sizeof(stamp));
      }
    }
    const auto tables = TablesOf(live);
    prefix_->Commit(live.tokens, count, live.chain, live.sequence);
    Learn(live, tables, before + count);
  }

  // All that was admitted can come to its longest course, side by side.
  void AdvanceAllToTheEnd() {
    for (bool is_done = false; !is_done && !error_.has_value();) {
      is_done = true;
      for (const auto& live : live_) {
        Advance(*live);
        is_done = is_done && live->sequence.num_tokens() == kMaxTokens;
      }
    }
  }

  void End(Live& live, bool is_finished) {
    history_.push_back(live.tokens);
    if (history_.size() > 8) history_.erase(history_.begin());
    const auto tables = TablesOf(live);
    const uint64_t num_tokens = live.sequence.num_tokens();
    if (is_finished) {
      prefix_->Finish(live.tokens, live.chain, live.sequence);
      Learn(live, tables, num_tokens);
    } else {
      live.sequence.Release();
    }
    prefix_->EndCompute(live.number);
    std::erase_if(live_, [&](const auto& each) { return each.get() == &live; });
  }

  void Rewind(Live& live) {
    if (live.sequence.num_tokens() == 0 || is_admitting_) return;  // It may take a block more than was admitted.
    const uint64_t num_tokens = source_.Byte() % live.sequence.num_tokens();
    // Where one group cannot, others have: then only releasing is left.
    if (!live.sequence.Truncate(num_tokens).ok()) return End(live, /*is_finished=*/false);
    live.chain.Truncate(num_tokens);
    live.tokens.resize(num_tokens);
    AppendRandom(live.tokens, 1 + source_.Byte() % 30);
  }

  void Evict() {
    const size_t group = source_.Byte() % cache_->num_groups();
    const uint64_t count = source_.Byte() % (cache_->pool(group).total_blocks() + 1);
    const bool is_possible = count <= prefix_->AvailableBlocks()[group];
    if (prefix_->MakeRoom(group, count) != is_possible) Fail("room is not what is free or idle");
    Forget();
  }

  void Pin() {
    now_us_ += source_.Byte() % 16;
    pins_->Expire(now_us_);
    const std::string salt = Salt();
    const std::vector<TokenId> tokens = Prompt();
    KeyChain chain = prefix_->NewChain(salt);
    const PrefixMatch match = prefix_->Match(tokens, tokens.size(), chain);
    if (is_admitting_ && !CountLive(nullptr).FitsPin(match)) return;
    (void)pins_->Pin(match, now_us_ + source_.Byte() % 64);
  }

  // What runs, without `but`.
  Admission CountLive(const Live* but) const {
    Admission admission(*cache_, pins_->num_blocks());
    for (const auto& live : live_) {
      if (live.get() != but) admission.Count(live->sequence, kMaxTokens);
    }
    return admission;
  }

  // --- the naive picture ---

  std::vector<std::vector<BlockIndex>> TablesOf(const Live& live) const {
    std::vector<std::vector<BlockIndex>> tables;
    for (size_t g = 0; g < cache_->num_groups(); ++g) {
      const auto blocks = live.sequence.table(g).blocks();
      tables.emplace_back(blocks.begin(), blocks.end());
    }
    return tables;
  }

  // Blocks of `tables` that have entered the index hold tokens of `live`, of which `num_tokens` are computed.
  void Learn(const Live& live, const std::vector<std::vector<BlockIndex>>& tables, uint64_t num_tokens) {
    Forget();
    for (size_t g = 0; g < tables.size(); ++g) {
      for (uint64_t i = 0; i < tables[g].size(); ++i) {
        const BlockIndex block = tables[g][i];
        if (block == kNoBlock || known_[g].contains(block) || !prefix_->group(g).index().Has(block)) continue;
        const uint64_t end = std::min<uint64_t>(num_tokens, (i + 1) * kBlockSize);
        known_[g][block] = {
            live.salt, {live.tokens.begin(), live.tokens.begin() + static_cast<ptrdiff_t>(end)}, i * kBlockSize};
      }
    }
  }

  // What has left the index.
  void Forget() {
    for (size_t g = 0; g < known_.size(); ++g) {
      std::erase_if(known_[g], [&](const auto& known) { return !prefix_->group(g).index().Has(known.first); });
    }
  }

  // How many of the tokens from `begin` on some block holds after the same tokens before it.
  uint64_t NaiveCached(size_t group, const std::string& salt, const std::vector<TokenId>& tokens,
                       uint64_t begin) const {
    uint64_t most = 0;
    for (const auto& [block, record] : known_[group]) {
      if (record.salt != salt || record.begin != begin) continue;
      const auto end = std::mismatch(tokens.begin(), tokens.end(), record.tokens.begin(), record.tokens.end()).first;
      const auto num_common = static_cast<uint64_t>(end - tokens.begin());
      if (num_common > begin) most = std::max(most, num_common - begin);
    }
    return most;
  }

  // Whether `group` has what a row at position `num_tokens` sees.
  bool NaiveHas(size_t group, const std::string& salt, const std::vector<TokenId>& tokens, uint64_t num_tokens) const {
    const SequenceCourse course = cache_->spec().Course(group, kMaxTokens);
    for (uint64_t begin = 0; begin < num_tokens; begin += kBlockSize) {
      const bool is_seen = begin + kBlockSize > course.WindowBegin(num_tokens) ||
                           course.IsPinned(begin / kBlockSize, kBlockSize) || begin + kBlockSize > num_tokens;
      const uint64_t needed = std::min<uint64_t>(kBlockSize, num_tokens - begin);
      if (is_seen && NaiveCached(group, salt, tokens, begin) < needed) return false;
    }
    return true;
  }

  uint64_t NaiveMatch(const std::string& salt, const std::vector<TokenId>& tokens, uint64_t max_tokens) const {
    for (uint64_t n = max_tokens; n > 0; --n) {
      bool all_have = true;
      for (size_t g = 0; g < known_.size(); ++g) all_have = all_have && NaiveHas(g, salt, tokens, n);
      if (all_have) return n;
    }
    return 0;
  }

  // --- what must hold at any time ---

  static uint64_t Stamp(const std::string& salt, const std::vector<TokenId>& tokens, uint64_t position) {
    uint64_t hash = 14695981039346656037u + static_cast<uint8_t>(salt[0]);  // FNV-1a.
    for (uint64_t i = 0; i <= position; ++i) hash = (hash ^ static_cast<uint64_t>(tokens[i] + 1)) * 1099511628211u;
    return hash;
  }
  uint8_t* Slot(size_t group, BlockIndex block, uint64_t slot) const {
    BlockPool& pool = cache_->pool(group);
    return pool.BlockBytes(block) + slot * (pool.layout().block_bytes() / kBlockSize);
  }
  bool Holds(size_t group, BlockIndex block, const std::string& salt, const std::vector<TokenId>& tokens,
             uint64_t position) const {
    uint64_t stamp;
    std::memcpy(&stamp, Slot(group, block, position % kBlockSize), sizeof(stamp));
    return stamp == Stamp(salt, tokens, position);
  }

  void CheckAll() {
    Forget();
    for (size_t g = 0; g < known_.size(); ++g) CheckGroup(g);
    for (const auto& live : live_) CheckLive(*live);
    const CacheStats stats = cache_->Stats();
    if (stats.free_blocks + stats.filling_blocks + stats.full_blocks + stats.idle_blocks != stats.total_blocks) {
      Fail("free + filling + full + idle != total");
    }
  }

  void CheckGroup(size_t g) {
    const PrefixIndex& index = prefix_->group(g).index();
    if (index.size() != known_[g].size()) Fail("the index has blocks that nobody published");
    for (BlockIndex block = 0; block < cache_->pool(g).total_blocks(); ++block) {
      if (index.Has(block) != cache_->pool(g).is_kept(block)) Fail("kept and indexed blocks are not the same");
    }
    for (const auto& [block, record] : known_[g]) {
      for (uint64_t p = record.begin; p < record.tokens.size(); ++p) {
        if (!Holds(g, block, record.salt, record.tokens, p)) Fail("a cached block has changed");
      }
    }
  }

  // The next row of a sequence finds the tokens that it sees.
  void CheckLive(const Live& live) {
    const uint64_t num_tokens = live.sequence.num_tokens();
    for (size_t g = 0; g < cache_->num_groups(); ++g) {
      const SequenceCourse& course = live.sequence.table(g).course();
      for (uint64_t p = 0; p < num_tokens; ++p) {
        const bool is_seen = p >= course.WindowBegin(num_tokens) ||
                             std::ranges::any_of(course.span.pinned, [&](const PositionRange& range) {
                               return p >= range.begin && p < range.end;
                             });
        if (!is_seen) continue;
        const BlockIndex block = live.sequence.table(g).blocks()[p / kBlockSize];
        if (block == kNoBlock || !Holds(g, block, live.salt, live.tokens, p)) {
          Fail("position " + std::to_string(p) + " of " + std::to_string(num_tokens) + " is not what it should be");
        }
      }
    }
  }

  Source& source_;
  std::unique_ptr<KvCache> cache_;
  std::unique_ptr<PrefixCache> prefix_;
  std::unique_ptr<PrefixPins> pins_;
  std::vector<std::unique_ptr<Live>> live_;
  std::vector<std::vector<TokenId>> history_;
  std::vector<std::map<BlockIndex, Record>> known_;  // Of each layer group: what is in the index.
  bool is_admitting_ = false;  // Sequences begin only where all can be finished; otherwise they may get stuck.
  uint64_t now_us_ = 0;
  uint64_t next_number_ = 0;
  std::optional<std::string> error_;
};

}  // namespace kvern
