// SpecialTokenMatcher cuts special tokens out of a text before anything else looks at it. The longest token goes first
// across the whole text, then the next one in what is left, and so on; ties by id. That is not leftmost-longest: in
// "abcd" with the tokens "ab" and "bcd", "bcd" is cut out. One Aho-Corasick pass finds what a scan per token would.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "kvern/tokenizer.h"

namespace kvern {

struct SpecialToken {
  std::string_view text;
  TokenId id;
};

struct SpecialMatch {
  size_t begin;
  size_t end;
  TokenId id;
};

class SpecialTokenMatcher {
 public:
  SpecialTokenMatcher() = default;
  // Copies what it needs. Tokens with an empty text are never found.
  explicit SpecialTokenMatcher(std::vector<SpecialToken> tokens);

  // The matches in `text` in order; they do not overlap. `text` has fewer than 2^32 bytes.
  std::vector<SpecialMatch> Find(std::string_view text) const;

 private:
  // A node of the automaton stands for the text on the path to it.
  struct Node {
    uint32_t fail = 0;    // The longest proper suffix that is a node.
    uint32_t output = 0;  // The longest suffix, itself included, that is a token; 0: none.
    uint32_t depth = 0;
    uint32_t rank = UINT32_MAX;  // Which token this is, in the order of cutting.
  };

  uint32_t Child(uint32_t node, uint8_t byte) const;
  uint32_t Step(uint32_t node, uint8_t byte) const;
  // The longest token that ends where `node` ends, is shorter than it, and not longer than `limit`; 0: none.
  uint32_t ShorterOutput(uint32_t node, uint32_t limit) const;

  std::vector<Node> nodes_;
  std::array<uint32_t, 256> root_children_{};
  std::unordered_map<uint64_t, uint32_t> children_;  // node << 8 | byte -> child, for nodes other than the root.
  std::vector<TokenId> id_of_rank_;
  std::vector<uint32_t> node_of_rank_;
};

}  // namespace kvern
