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

PrefixIndex::Neighbours PrefixIndex::FindNeighbours(const BlockKey& parent, std::span<const TokenId> tokens) const {
  Neighbours found;
  const auto common = [&](BlockIndex block) -> std::optional<Beginning> {
    if (entries_[block].parent != parent) return std::nullopt;
    return Beginning{block, NumCommon(entries_[block].tokens, tokens)};
  };
  const auto after = siblings_.lower_bound(Probe{parent, tokens});
  if (after != siblings_.end()) found.after = common(*after);
  if (after != siblings_.begin()) found.before = common(*std::prev(after));
  return found;
}

std::optional<PrefixIndex::Beginning> PrefixIndex::FindBeginning(const BlockKey& parent,
                                                                 std::span<const TokenId> tokens) const {
  auto [best, other] = FindNeighbours(parent, tokens);
  if (!best.has_value() || (other.has_value() && other->num_tokens > best->num_tokens)) best = other;
  return best.has_value() && best->num_tokens > 0 ? best : std::nullopt;
}

std::optional<PrefixIndex::Beginning> PrefixIndex::FindDivergence(const BlockKey& parent,
                                                                  std::span<const TokenId> tokens) const {
  const auto [before, after] = FindNeighbours(parent, tokens);
  std::optional<Beginning> best;
  for (const std::optional<Beginning>& sibling : {before, after}) {
    if (!sibling.has_value()) continue;
    const bool differs = sibling->num_tokens < std::min(tokens.size(), entries_[sibling->block].tokens.size());
    if (differs && (!best.has_value() || sibling->num_tokens > best->num_tokens)) best = sibling;
  }
  return best;
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
                         uint32_t tenant) {
  KVERN_CHECK(block < entries_.size() && !Has(block) && !tokens.empty());
  // Tokens that stand there under another key would be a key of another making: they are left alone too.
  if (by_key_.contains(key) || siblings_.contains(Probe{parent, tokens})) return false;
  entries_[block] = {key, parent, {tokens.begin(), tokens.end()}, tenant, 0};
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
