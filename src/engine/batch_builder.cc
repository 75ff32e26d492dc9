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

}  // namespace

void BatchBuilder::Clear() {
  tokens_.clear();
  sequences_.clear();
  logit_rows_.clear();
}

void BatchBuilder::Add(BlockTable& table, std::span<const TokenId> tokens, uint64_t num_logit_rows) {
  KVERN_CHECK(!tokens.empty() && num_logit_rows <= tokens.size());
  KVERN_CHECK(table.Reserve(table.num_tokens() + tokens.size()).ok());
  const auto first_row = static_cast<uint32_t>(tokens_.size());
  const auto num_rows = static_cast<uint32_t>(tokens.size());
  sequences_.push_back({.first_row = first_row,
                        .num_rows = num_rows,
                        .first_position = static_cast<uint32_t>(table.num_tokens()),
                        .block_tables = {table.blocks()}});
  tokens_.insert(tokens_.end(), tokens.begin(), tokens.end());
  const uint32_t end = first_row + num_rows;
  for (uint32_t row = end - static_cast<uint32_t>(num_logit_rows); row < end; ++row) logit_rows_.push_back(row);
}

ForwardBatch BatchBuilder::Build(const KvView& kv) {
  FindSharedPrefixes(kv.block_size);
  return {.tokens = tokens_,
          .sequences = sequences_,
          .kv = {kv},
          .logit_rows = logit_rows_,
          .shared_prefixes = shared_prefixes_};
}

void BatchBuilder::FindSharedPrefixes(uint32_t block_size) {
  shared_prefixes_.clear();
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

uint64_t BatchBuilder::VisiblePairs(size_t i) const {
  const uint64_t first = sequences_[i].first_position, rows = sequences_[i].num_rows;
  return rows * first + rows * (rows + 1) / 2;
}

uint64_t BatchBuilder::TotalVisiblePairs() const {
  uint64_t total = 0;
  for (size_t i = 0; i < sequences_.size(); ++i) total += VisiblePairs(i);
  return total;
}

}  // namespace kvern
