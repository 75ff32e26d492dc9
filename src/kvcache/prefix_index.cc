#include "kvcache/prefix_index.h"

#include <algorithm>
#include <iterator>

#include "base/check.h"

namespace kvern {
namespace {

uint32_t NumCommon(std::span<const TokenId> a, std::span<const TokenId> b) {
  const size_t size = std::min(a.size(), b.size());
  return static_cast<uint32_t>(
      std::mismatch(a.begin(), a.begin() + static_cast<std::ptrdiff_t>(size), b.begin()).first - a.begin());
}

}  // namespace

bool PrefixIndex::IsBefore(const Probe& a, const Probe& b) {
  if (a.parent != b.parent) return a.parent < b.parent;
  return std::ranges::lexicographical_compare(a.tokens, b.tokens);
}

std::optional<BlockIndex> PrefixIndex::Find(const BlockKey& key, std::span<const TokenId> tokens) const {
  const auto found = by_key_.find(key);
  if (found == by_key_.end() || !std::ranges::equal(entries_[found->second].tokens, tokens)) return std::nullopt;
  return found->second;
}

std::optional<PrefixIndex::Beginning> PrefixIndex::FindMostAlike(const BlockKey& parent,
                                                                 std::span<const TokenId> tokens) const {
  std::optional<Beginning> best;
  const auto consider = [&](BlockIndex block) {
    if (entries_[block].parent != parent) return;
    const uint32_t num_common = NumCommon(entries_[block].tokens, tokens);
    if (!best.has_value() || num_common > best->num_tokens) best = {block, num_common};
  };
  // In the order of tokens, whoever has most in common stands right before or after.
  const auto after = siblings_.lower_bound(Probe{parent, tokens});
  if (after != siblings_.begin()) consider(*std::prev(after));
  if (after != siblings_.end()) consider(*after);
  return best;
}

std::optional<PrefixIndex::Beginning> PrefixIndex::FindBeginning(const BlockKey& parent,
                                                                 std::span<const TokenId> tokens) const {
  const std::optional<Beginning> best = FindMostAlike(parent, tokens);
  return best.has_value() && best->num_tokens > 0 ? best : std::nullopt;
}

std::optional<PrefixIndex::Beginning> PrefixIndex::FindDivergence(const BlockKey& parent,
                                                                  std::span<const TokenId> tokens) const {
  const std::optional<Beginning> best = FindMostAlike(parent, tokens);
  if (!best.has_value() || best->num_tokens == tokens.size()) return std::nullopt;
  return best->num_tokens < entries_[best->block].tokens.size() ? best : std::nullopt;
}

std::optional<BlockIndex> PrefixIndex::FindSuperfluous(BlockIndex block) const {
  const auto at = siblings_.find(block);
  KVERN_CHECK(at != siblings_.end() && *at == block);
  if (at == siblings_.begin()) return std::nullopt;
  const BlockIndex before = *std::prev(at);
  const Entry& entry = entries_[before];
  if (entry.parent != entries_[block].parent) return std::nullopt;
  if (NumCommon(entry.tokens, entries_[block].tokens) < entry.tokens.size()) return std::nullopt;
  return before;
}

bool PrefixIndex::Insert(BlockIndex block, const BlockKey& key, const BlockKey& parent, std::span<const TokenId> tokens,
                         const BlockOwner& owner) {
  KVERN_CHECK(block < entries_.size() && !Has(block) && !tokens.empty());
  // Tokens that stand there under another key would be a key of another making: they are left alone too.
  if (by_key_.contains(key) || siblings_.contains(Probe{parent, tokens})) return false;
  entries_[block] = {key, parent, {tokens.begin(), tokens.end()}, owner, 0};
  by_key_.emplace(key, block);
  siblings_.insert(block);
  return true;
}

void PrefixIndex::Remove(BlockIndex block) {
  KVERN_CHECK(block < entries_.size() && Has(block));
  siblings_.erase(block);
  by_key_.erase(entries_[block].key);
  entries_[block] = {};
}

}  // namespace kvern
