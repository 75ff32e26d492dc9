#include "tokenizer/special_tokens.h"

#include <algorithm>
#include <map>

namespace kvern {

SpecialTokenMatcher::SpecialTokenMatcher(std::vector<SpecialToken> tokens) {
  std::erase_if(tokens, [](const SpecialToken& token) { return token.text.empty(); });
  if (tokens.empty()) return;
  std::sort(tokens.begin(), tokens.end(), [](const SpecialToken& a, const SpecialToken& b) {
    return a.text.size() != b.text.size() ? a.text.size() > b.text.size() : a.id < b.id;
  });

  struct Edge {
    uint32_t parent, child;
    uint8_t byte;
  };
  std::vector<Edge> edges;
  nodes_.emplace_back();
  for (const SpecialToken& token : tokens) {
    uint32_t node = 0;
    for (const char c : token.text) {
      const auto byte = static_cast<uint8_t>(c);
      uint32_t child = Child(node, byte);
      if (child == 0) {
        child = static_cast<uint32_t>(nodes_.size());
        nodes_.emplace_back().depth = nodes_[node].depth + 1;
        if (node == 0) {
          root_children_[byte] = child;
        } else {
          children_.emplace((uint64_t{node} << 8) | byte, child);
        }
        edges.push_back({node, child, byte});
      }
      node = child;
    }
    if (nodes_[node].rank != UINT32_MAX) continue;
    nodes_[node].rank = static_cast<uint32_t>(id_of_rank_.size());
    id_of_rank_.push_back(token.id);
    node_of_rank_.push_back(node);
  }

  // Shallow nodes first: what a node fails to is always complete.
  std::stable_sort(edges.begin(), edges.end(),
                   [this](const Edge& a, const Edge& b) { return nodes_[a.child].depth < nodes_[b.child].depth; });
  for (const Edge& edge : edges) {
    Node& node = nodes_[edge.child];
    node.fail = edge.parent == 0 ? 0 : Step(nodes_[edge.parent].fail, edge.byte);
    node.output = node.rank != UINT32_MAX ? edge.child : nodes_[node.fail].output;
  }
}

uint32_t SpecialTokenMatcher::Child(uint32_t node, uint8_t byte) const {
  if (node == 0) return root_children_[byte];
  const auto it = children_.find((uint64_t{node} << 8) | byte);
  return it == children_.end() ? 0 : it->second;
}

uint32_t SpecialTokenMatcher::Step(uint32_t node, uint8_t byte) const {
  for (;; node = nodes_[node].fail) {
    const uint32_t child = Child(node, byte);
    if (child != 0 || node == 0) return child;
  }
}

uint32_t SpecialTokenMatcher::ShorterOutput(uint32_t node, uint32_t limit) const {
  do {
    node = nodes_[nodes_[node].fail].output;
  } while (node != 0 && nodes_[node].depth > limit);
  return node;
}

std::vector<SpecialMatch> SpecialTokenMatcher::Find(std::string_view text) const {
  std::vector<SpecialMatch> matches;
  if (nodes_.empty()) return matches;

  // One candidate per end of a match: the ends by rank of the token, longest token first. A candidate that no longer
  // fits gives way to the longest shorter token with the same end that does; free space only shrinks, so none is
  // missed.
  std::map<uint32_t, std::vector<uint32_t>> ends_of_rank;
  uint32_t state = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<uint8_t>(text[i]);
    state = state == 0 ? root_children_[byte] : Step(state, byte);
    const uint32_t output = nodes_[state].output;
    if (output != 0) ends_of_rank[nodes_[output].rank].push_back(static_cast<uint32_t>(i + 1));
  }
  if (ends_of_rank.empty()) return matches;

  std::vector<uint8_t> taken(text.size());
  while (!ends_of_rank.empty()) {
    // Shorter tokens have higher ranks: nothing is added to the list that is being worked on.
    auto node = ends_of_rank.extract(ends_of_rank.begin());
    const uint32_t rank = node.key();
    const uint32_t length = nodes_[node_of_rank_[rank]].depth;
    std::sort(node.mapped().begin(), node.mapped().end());
    for (const uint32_t end : node.mapped()) {
      uint32_t free = 0;
      while (free < length && taken[end - 1 - free] == 0) ++free;
      if (free == length) {
        std::fill_n(taken.begin() + static_cast<ptrdiff_t>(end - length), length, uint8_t{1});
        matches.push_back({end - length, end, id_of_rank_[rank]});
      } else if (free > 0) {
        const uint32_t shorter = ShorterOutput(node_of_rank_[rank], free);
        if (shorter != 0) ends_of_rank[nodes_[shorter].rank].push_back(end);
      }
    }
  }
  std::sort(matches.begin(), matches.end(),
            [](const SpecialMatch& a, const SpecialMatch& b) { return a.begin < b.begin; });
  return matches;
}

}  // namespace kvern
