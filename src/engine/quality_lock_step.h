// LockStep: one model over the same rows several times, with a cache of its own each time, row against row.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "base/aligned_buffer.h"
#include "engine/batch_builder.h"
#include "engine/loaded_model.h"
#include "engine/quality_statistics.h"
#include "kvcache/kv_cache.h"
#include "kvcache/sequence_cache.h"

namespace kvern {

class LockStep {
 public:
  // `loaded` must outlive it. At most `max_rows` rows go into a step.
  LockStep(LoadedModel& loaded, uint32_t max_rows);

  // Memory for the logits of a step.
  Status Reserve();
  // The first side is the reference, the others are its candidates: caches of `options` but for their memory, with room
  // for `max_tokens` tokens.
  // `editor` changes the rows before the side's cache stores them.
  Status AddSide(EngineOptions options, const CacheOptions& cache, uint32_t max_tokens, KvEditor editor = {});
  // The rows of RunSequence through the reference alone: `on_rows` sees keys and values as its cache stores them, with
  // the number of rows, step by step and layer by layer. kCancelled where `goes_on`, asked before each step, says so.
  using RowsObserver = std::function<void(const AttentionRows& rows, uint64_t num_rows)>;
  Status Observe(std::span<const TokenId> tokens, const RowsObserver& on_rows, const std::function<bool()>& goes_on);
  // Every row of `tokens` but the last token, which is only a target. `progress` gets the rows of each step; the result
  // is false where it said so.
  Result<bool> RunSequence(std::span<const TokenId> tokens, const std::function<bool(uint64_t)>& progress);
  // What was found of candidate `candidate` (0: the second side) so far.
  QualityReport ReportOf(size_t candidate) const;

 private:
  struct PositionedRow {
    uint32_t position;
    RowDivergence divergence;
  };
  struct Side {
    std::unique_ptr<KvCache> cache;
    std::unique_ptr<SequenceCache> sequence;  // Goes before its cache.
    std::unique_ptr<BatchBuilder> batch;
    KvEditor editor;  // May be empty.
    std::vector<PositionedRow> rows;
  };

  // The next rows of the side's sequence. Logits of all rows, or `logits` is empty.
  Status Forward(Side& side, std::span<const TokenId> tokens, std::span<float> logits,
                 const AttentionObserver* observer = nullptr);
  void Compare(Side& side, uint32_t first_position, std::span<const TokenId> targets);
  // kCorruption where the reference gave no finite logits for one of the last `count` rows.
  Status CheckReference(uint64_t first_position, uint64_t count) const;
  std::span<float> Rows(AlignedBuffer& logits, uint64_t count) const {
    return {logits.as<float>(), count * vocab_size_};
  }
  std::span<const float> Row(const AlignedBuffer& logits, uint64_t i) const {
    return {logits.as<float>() + i * vocab_size_, vocab_size_};
  }

  Model& model_;
  const Tokenizer& tokenizer_;
  const KernelTable& kernels_;
  ThreadPool& workers_;
  const uint64_t vocab_size_;
  const uint32_t rows_per_step_;
  std::vector<Side> sides_;
  AlignedBuffer reference_logits_, candidate_logits_;  // [rows_per_step][vocabulary]
  AlignedBuffer scratch_;                              // [workers][vocabulary]
};

// MeasureQuality on a model that is there already.
Result<std::vector<QualityReport>> MeasureQuality(LoadedModel& loaded, const QualityRequest& request,
                                                  const QualityProgress& progress);

}  // namespace kvern
