// BatchBuilder: collects the rows of one step and owns the arrays that its ForwardBatch points to.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kvcache/block_table.h"
#include "model/model.h"

namespace kvern {

class BatchBuilder {
 public:
  // Forgets the last step.
  void Clear();
  // Adds `tokens`, the next ones of a sequence whose computed tokens `table` holds, and makes room for them. The last
  // `num_logit_rows` of them give logits. The room must be there: admission saw to it.
  void Add(BlockTable& table, std::span<const TokenId> tokens, uint64_t num_logit_rows);

  // The batch, which names what neighbours of one row each share: their tables begin with the same blocks. Valid until
  // the next call; no table may change before the step has run.
  ForwardBatch Build(const KvView& kv);
  uint64_t num_rows() const { return tokens_.size(); }
  uint64_t num_logit_rows() const { return logit_rows_.size(); }

  // Query-key products per head and layer of the sequence that was added as number `i`: one for each token that each of
  // its rows sees.
  uint64_t VisiblePairs(size_t i) const;
  uint64_t TotalVisiblePairs() const;

 private:
  // O(blocks of the batch).
  void FindSharedPrefixes(uint32_t block_size);

  std::vector<TokenId> tokens_;
  std::vector<SequenceRows> sequences_;
  std::vector<uint32_t> logit_rows_;
  std::vector<SharedPrefix> shared_prefixes_;
};

}  // namespace kvern
