// BatchBuilder: collects the rows of one step and owns the arrays that its ForwardBatch points to.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kvcache/sequence_cache.h"
#include "model/model.h"

namespace kvern {

// Query-key products of one head and layer for rows at positions first .. first + count - 1 that see `span`.
uint64_t VisiblePairs(const AttentionSpan& span, uint64_t first, uint64_t count);

class BatchBuilder {
 public:
  // `cache` must outlive the builder.
  explicit BatchBuilder(KvCache& cache) : cache_(cache) {}

  // Forgets the last step.
  void Clear();
  // Adds `tokens`, the next ones of a sequence whose computed tokens `sequence` holds, and makes room for them. The last
  // `num_logit_rows` of them give logits. The room must be there: admission saw to it.
  void Add(SequenceCache& sequence, std::span<const TokenId> tokens, uint64_t num_logit_rows);

  // The batch, which names what neighbours of one row each share: their tables begin with the same blocks. Valid until
  // the next call; no table may change before the step has run.
  ForwardBatch Build();
  uint64_t num_rows() const { return tokens_.size(); }
  uint64_t num_logit_rows() const { return logit_rows_.size(); }

  // Query-key products per head of the sequence that was added as number `i`, over all layers: one for each token that
  // each of its rows sees.
  uint64_t NumProducts(size_t i) const;
  uint64_t TotalProducts() const;
  // Tokens computed in earlier steps that some row of sequence `i` sees in some layer.
  uint64_t NumReused(size_t i) const;

 private:
  // O(blocks of the batch).
  void FindSharedPrefixes(uint32_t block_size);

  KvCache& cache_;
  std::vector<TokenId> tokens_;
  std::vector<SequenceRows> sequences_;
  std::vector<uint32_t> logit_rows_;
  std::vector<SharedPrefix> shared_prefixes_;
};

}  // namespace kvern
