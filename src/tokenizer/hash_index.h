// The two hash tables of the tokenizers: text -> token id, and pair of ids -> merge. Both are filled once and then only
// read; both probe linearly in a power of two of slots, at most half full.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <vector>

#include "kvern/tokenizer.h"

namespace kvern {

inline constexpr uint64_t kHashMultiplier = 0x9E3779B97F4A7C15u;

inline uint64_t HashBytes(std::string_view text) {
  uint64_t hash = text.size() * kHashMultiplier;
  const char* at = text.data();
  size_t left = text.size();
  for (; left >= 8; left -= 8, at += 8) {
    uint64_t word;
    std::memcpy(&word, at, 8);
    hash = (hash ^ word) * kHashMultiplier;
    hash ^= hash >> 29;
  }
  uint64_t word = 0;
  if (left > 0) std::memcpy(&word, at, left);
  hash = (hash ^ word) * kHashMultiplier;
  hash ^= hash >> 32;
  return hash * kHashMultiplier;
}

// Text -> token id. The views must stay valid while the index lives.
class TextIndex {
 public:
  // Room for `count` texts.
  explicit TextIndex(size_t count = 0)
      : slots_(std::bit_ceil(count * 2 + 2)), shift_(64 - std::bit_width(slots_.size() - 1)) {}

  // The id that `text` has from now on: `id`, or the one that it had before.
  TokenId Insert(std::string_view text, TokenId id) {
    const uint64_t hash = HashBytes(text);
    for (size_t at = hash >> shift_;; at = (at + 1) & (slots_.size() - 1)) {
      Slot& slot = slots_[at];
      if (slot.id < 0) {
        slot = {text.data(), static_cast<uint32_t>(text.size()), id};
        return id;
      }
      if (Equal(slot, text)) return slot.id;
    }
  }

  // -1 where `text` is no token.
  TokenId Find(std::string_view text) const {
    for (size_t at = HashBytes(text) >> shift_;; at = (at + 1) & (slots_.size() - 1)) {
      const Slot& slot = slots_[at];
      if (slot.id < 0 || Equal(slot, text)) return slot.id;
    }
  }

 private:
  struct Slot {
    const char* text = nullptr;
    uint32_t length = 0;
    TokenId id = -1;
  };
  static bool Equal(const Slot& slot, std::string_view text) {
    return slot.length == text.size() && std::memcmp(slot.text, text.data(), text.size()) == 0;
  }
  std::vector<Slot> slots_;
  int shift_;
};

// (left id, right id) -> rank and id of what they merge into.
class MergeIndex {
 public:
  struct Merge {
    uint64_t pair = kEmpty;
    uint32_t rank = 0;
    TokenId merged = -1;
  };

  explicit MergeIndex(size_t count = 0)
      : slots_(std::bit_ceil(count * 2 + 2)), shift_(64 - std::bit_width(slots_.size() - 1)) {}

  // Keeps what an earlier Insert of the same pair said.
  void Insert(TokenId left, TokenId right, uint32_t rank, TokenId merged) {
    const uint64_t pair = Pair(left, right);
    size_t at = Hash(pair);
    while (slots_[at].pair != kEmpty && slots_[at].pair != pair) at = (at + 1) & (slots_.size() - 1);
    if (slots_[at].pair == kEmpty) slots_[at] = {pair, rank, merged};
  }

  // nullptr where the pair does not merge.
  const Merge* Find(TokenId left, TokenId right) const {
    const uint64_t pair = Pair(left, right);
    for (size_t at = Hash(pair);; at = (at + 1) & (slots_.size() - 1)) {
      if (slots_[at].pair == pair) return &slots_[at];
      if (slots_[at].pair == kEmpty) return nullptr;
    }
  }

 private:
  static constexpr uint64_t kEmpty = ~uint64_t{0};  // No pair: ids are not negative.
  static uint64_t Pair(TokenId left, TokenId right) {
    return (static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32) | static_cast<uint32_t>(right);
  }
  size_t Hash(uint64_t pair) const {
    pair *= kHashMultiplier;
    return ((pair ^ (pair >> 32)) * kHashMultiplier) >> shift_;
  }
  std::vector<Merge> slots_;
  int shift_;
};

}  // namespace kvern
