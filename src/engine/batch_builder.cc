#include "engine/batch_builder.h"

#include "base/check.h"

namespace kvern {

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
                        .block_table = table.blocks()});
  tokens_.insert(tokens_.end(), tokens.begin(), tokens.end());
  const uint32_t end = first_row + num_rows;
  for (uint32_t row = end - static_cast<uint32_t>(num_logit_rows); row < end; ++row) logit_rows_.push_back(row);
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
