// StepRunner: runs one step after another: batch -> Model::Forward -> commit -> fork -> draw. Engine thread only; the
// workers compute and draw.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/aligned_buffer.h"
#include "base/thread_pool.h"
#include "engine/batch_builder.h"
#include "engine/scheduler.h"
#include "kvcache/kv_cache.h"
#include "model/model.h"

namespace kvern {

class StepRunner {
 public:
  // All must outlive the runner. `workers` may be null. !is_cached: what a step finds in the cache was put there for
  // it.
  // prefix: may be null; gives room that idle blocks take.
  StepRunner(Model& model, KvCache& cache, PrefixCache* prefix, const KernelTable& kernels, ThreadPool* workers,
             bool is_cached);

  // Computes the planned rows and draws the next tokens. Where the pass fails, every sequence of the plan finishes with
  // its status.
  void RunSequences(std::span<const PlannedRows> plan);
  // Computes the next rows of `job`, at most `max_rows`; not ok ends it.
  Status RunScore(ScoreJob& job, uint64_t max_rows);

  // Of all steps so far.
  uint64_t num_steps() const { return num_steps_; }
  uint64_t query_key_products() const { return query_key_products_; }
  uint64_t kv_values_lost() const { return kv_values_lost_; }
  uint64_t tokens_computed() const { return tokens_computed_; }
  uint64_t tokens_reused() const { return tokens_reused_; }
  uint64_t tokens_recomputed() const { return tokens_recomputed_; }  // Not among those computed.

 private:
  // A sequence whose next token is wanted, and the row that it is drawn from: the same for those that share a prompt.
  struct Draw {
    Sequence* sequence;
    std::span<const float> logits;
    Result<TokenId> token = TokenId{-1};
  };

  // All pending tokens of the sequence are computed: those that follow it fork, and all of them want a token or end.
  void OnPendingDone(const PlannedRows& rows, std::span<const float> logits);
  void DrawAll();
  // Logits of the built batch, [logit rows][vocabulary], in logits_.
  Result<ForwardStats> Forward();
  std::span<float> LogitRows(uint64_t first, uint64_t count);

  // Adds rows to the batch, for which admission saw to the room: perhaps idle blocks stand there.
  void AddRows(SequenceCache& sequence, std::span<const TokenId> tokens, uint64_t num_logit_rows);

  Model& model_;
  PrefixCache* const prefix_;
  const KernelTable& kernels_;
  ThreadPool* workers_;
  const bool is_cached_;
  const uint64_t vocab_size_;
  BatchBuilder batch_;
  AlignedBuffer logits_;  // Grows to the most rows that a step wanted.
  std::vector<Draw> draws_;
  uint64_t num_steps_ = 0;
  uint64_t query_key_products_ = 0;
  uint64_t kv_values_lost_ = 0;
  uint64_t tokens_computed_ = 0;
  uint64_t tokens_reused_ = 0;
  uint64_t tokens_recomputed_ = 0;
};

}  // namespace kvern
