#include "engine/batch_builder.h"

#include <algorithm>

#include "base/check.h"

namespace kvern {
namespace {

// Blocks at the front of both tables that are the same. Only full blocks are shared.
uint32_t NumCommonBlocks(const SequenceRows& a, const SequenceRows& b) {
  const auto [end, other_end] = std::ranges::mismatch(a.block_tables[0], b.block_tables[0]);
  return static_cast<uint32_t>(end - a.block_tables[0].begin());
}

// Positions below `end` that are pinned.
uint64_t NumPinnedBelow(const AttentionSpan& span, uint64_t end) {
  uint64_t count = 0;
  for (const PositionRange& range : span.pinned) {
    count += std::min<uint64_t>(range.end, end) - std::min<uint64_t>(range.begin, end);
  }
  return count;
}

uint64_t Triangle(uint64_t n) { return n * (n + 1) / 2; }

// The first position in the window of the row at `position`.
uint64_t WindowBegin(const AttentionSpan& span, uint64_t position) {
  return span.window == 0 || position < span.window ? 0 : position - span.window + 1;
}

}  // namespace

uint64_t VisiblePairs(const AttentionSpan& span, uint64_t first, uint64_t count) {
  const uint64_t end = first + count;
  if (span.window == 0 || end <= span.window) return Triangle(end) - Triangle(first);
  // Rows below position `window` see all before them, the others a full window and what is pinned before that.
  const uint64_t first_full = std::clamp<uint64_t>(span.window, first, end);
  uint64_t pairs = Triangle(first_full) - Triangle(first) + (end - first_full) * span.window;
  for (const PositionRange& range : span.pinned) {
    // Position q is behind the window of rows from q + window on: all of the full ones, or those from there to `end`.
    const uint64_t all_end = std::clamp<uint64_t>(first_full - span.window + 1, range.begin, range.end);
    const uint64_t some_end = std::clamp<uint64_t>(end - span.window, all_end, range.end);
    pairs += (all_end - range.begin) * (end - first_full);
    if (some_end > all_end) pairs += Triangle(end - span.window - all_end) - Triangle(end - span.window - some_end);
  }
  return pairs;
}

void BatchBuilder::Clear() {
  tokens_.clear();
  sequences_.clear();
  logit_rows_.clear();
}

void BatchBuilder::Add(SequenceCache& sequence, std::span<const TokenId> tokens, uint64_t num_logit_rows) {
  KVERN_CHECK(!tokens.empty() && num_logit_rows <= tokens.size());
  KVERN_CHECK(sequence.Reserve(sequence.num_tokens() + tokens.size()).ok());
  const auto first_row = static_cast<uint32_t>(tokens_.size());
  const auto num_rows = static_cast<uint32_t>(tokens.size());
  SequenceRows rows = {.first_row = first_row,
                       .num_rows = num_rows,
                       .first_position = static_cast<uint32_t>(sequence.num_tokens())};
  for (size_t g = 0; g < sequence.num_groups(); ++g) rows.block_tables[g] = sequence.table(g).blocks();
  sequences_.push_back(rows);
  tokens_.insert(tokens_.end(), tokens.begin(), tokens.end());
  const uint32_t end = first_row + num_rows;
  for (uint32_t row = end - static_cast<uint32_t>(num_logit_rows); row < end; ++row) logit_rows_.push_back(row);
}

ForwardBatch BatchBuilder::Build() {
  shared_prefixes_.clear();
  if (cache_.spec().groups[0].window == 0) FindSharedPrefixes(cache_.pool(0).layout().block_size());
  ForwardBatch batch = {.tokens = tokens_,
                        .sequences = sequences_,
                        .kv = {},
                        .logit_rows = logit_rows_,
                        .shared_prefixes = shared_prefixes_};
  for (size_t g = 0; g < cache_.num_groups(); ++g) {
    batch.kv[g] = cache_.pool(g).view();
    batch.spans[g] = cache_.spec().Span(g);
  }
  return batch;
}

void BatchBuilder::FindSharedPrefixes(uint32_t block_size) {
  bool is_open = false;  // Whether the last prefix is that of sequence i - 1.
  for (uint32_t i = 1; i < sequences_.size(); ++i) {
    const SequenceRows& previous = sequences_[i - 1];
    const SequenceRows& next = sequences_[i];
    const bool is_decoding = previous.num_rows == 1 && next.num_rows == 1;
    const uint32_t num_tokens = is_decoding ? NumCommonBlocks(previous, next) * block_size : 0;
    KVERN_DCHECK(num_tokens <= std::min(previous.first_position, next.first_position));
    // One that shares less would make all others of the prefix share less.
    if (is_open && num_tokens >= shared_prefixes_.back().num_tokens) {
      ++shared_prefixes_.back().num_sequences;
      continue;
    }
    is_open = num_tokens > 0 && !is_open;
    if (is_open) shared_prefixes_.push_back({.first_sequence = i - 1, .num_sequences = 2, .num_tokens = num_tokens});
  }
}

uint64_t BatchBuilder::NumProducts(size_t i) const {
  uint64_t products = 0;
  for (size_t g = 0; g < cache_.num_groups(); ++g) {
    const uint64_t num_layers = cache_.spec().groups[g].layout.shape().num_layers;
    products += num_layers * VisiblePairs(cache_.spec().Span(g), sequences_[i].first_position, sequences_[i].num_rows);
  }
  return products;
}

uint64_t BatchBuilder::TotalProducts() const {
  uint64_t total = 0;
  for (size_t i = 0; i < sequences_.size(); ++i) total += NumProducts(i);
  return total;
}

uint64_t BatchBuilder::NumReused(size_t i) const {
  const uint64_t first = sequences_[i].first_position;
  uint64_t most = 0;
  for (size_t g = 0; g < cache_.num_groups(); ++g) {
    const AttentionSpan span = cache_.spec().Span(g);
    const uint64_t begin = WindowBegin(span, first);
    most = std::max(most, first - begin + NumPinnedBelow(span, begin));
  }
  return most;
}

}  // namespace kvern
