// ScoreJob: one call of Engine::Score, run by the engine thread a few rows at a time between steps of sequences.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <vector>

#include "base/thread_pool.h"
#include "kernels/kernel_table.h"
#include "kvcache/sequence_cache.h"
#include "kvern/scoring.h"
#include "kvern/status.h"

namespace kvern {

// Shared by the thread that waits for the scores and the engine thread, which end in any order.
class ScoreJob {
 public:
  // `request` must be valid. `cache` must outlive the job's time on the engine thread.
  ScoreJob(KvCache& cache, ScoreRequest request);

  // ---- calling thread
  // Waits for the end; `progress` is called on this thread.
  Result<std::vector<TokenScore>> Wait(const ScoreProgress& progress);

  // ---- engine thread
  // Slots that the job fills: all tokens but the last, which nothing follows.
  uint64_t max_slots() const { return request_.tokens.size() - 1; }
  SequenceCache& cache() { return cache_; }
  uint64_t num_pending() const { return max_slots() - cache_.num_tokens(); }
  std::span<const TokenId> Pending(uint64_t count) const {
    return std::span(request_.tokens).subspan(cache_.num_tokens(), count);
  }
  // How many of the first `count` pending rows give no score; the rest all do.
  uint64_t NumUnscored(uint64_t count) const;
  bool is_cancelled() const;
  // The first `count` pending tokens are computed; `logits` are those of their scored rows and are overwritten.
  // Softmax runs on the workers of `workers`, or here where that is null. kCorruption where logits are not finite.
  Status OnLogits(uint64_t count, std::span<float> logits, const KernelTable& kernels, ThreadPool* workers);
  // Gives the blocks back.
  void ReleaseBlocks() { cache_.Release(); }
  // Wakes the caller. `status` not ok: there are no scores.
  void Finish(Status status);

 private:
  const ScoreRequest request_;
  SequenceCache cache_;
  std::vector<TokenScore> scores_;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  uint64_t tokens_done_ = 0;  // Guarded by mutex_, as are those below.
  bool is_cancelled_ = false;
  bool is_finished_ = false;
  Status status_;
};

// ln softmax(logits)[target] and the index of the largest logit; `logits` is overwritten. The sum runs in the fixed
// order of exp_shifted, the rest in double. log_prob is NaN where a logit is NaN or the largest is infinite.
TokenScore ScoreRow(std::span<float> logits, TokenId target, const KernelTable& kernels);

}  // namespace kvern
