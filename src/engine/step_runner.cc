#include "engine/step_runner.h"

#include <algorithm>

#include "base/check.h"

namespace kvern {
namespace {

// Logits of a scoring step: enough rows to keep products large, bounded for large vocabularies.
constexpr uint64_t kScoreLogitBytes = 16u << 20;

// value * part / whole without overflow; whole > 0.
uint64_t Share(uint64_t value, uint64_t part, uint64_t whole) {
  __extension__ using Wide = unsigned __int128;
  return static_cast<uint64_t>(Wide{value} * part / whole);
}

}  // namespace

StepRunner::StepRunner(Model& model, KvCache& cache, PrefixCache* prefix, const KernelTable& kernels,
                       ThreadPool* workers, bool is_cached)
    : model_(model),
      prefix_(prefix),
      kernels_(kernels),
      workers_(workers),
      is_cached_(is_cached),
      vocab_size_(model.config().vocab_size),
      batch_(cache) {}

void StepRunner::AddRows(SequenceCache& sequence, std::span<const TokenId> tokens, uint64_t num_logit_rows) {
  if (prefix_ != nullptr) prefix_->MakeRoom(sequence.NumMissing(sequence.num_tokens() + tokens.size()));
  batch_.Add(sequence, tokens, num_logit_rows);
}

void StepRunner::RunSequences(std::span<const PlannedRows> plan) {
  batch_.Clear();
  const auto gives_logits = [](const PlannedRows& rows) {
    return rows.num_rows == rows.sequence->num_pending() && rows.sequence->needs_logits();
  };
  for (const PlannedRows& rows : plan) {
    rows.sequence->OnStepBegin();
    AddRows(rows.sequence->cache(), rows.sequence->Pending(rows.num_rows), gives_logits(rows) ? 1 : 0);
  }
  const Result<ForwardStats> stats = Forward();
  if (!stats.ok()) {
    for (const PlannedRows& rows : plan) rows.sequence->Finish(FinishReason::kNone, stats.status());
    return;
  }
  const uint64_t all_products = batch_.TotalProducts();
  uint64_t next_logits = 0;
  draws_.clear();
  for (size_t i = 0; i < plan.size(); ++i) {
    Sequence& sequence = *plan[i].sequence;
    const bool has_logits = gives_logits(plan[i]);
    const uint64_t num_reused = is_cached_ ? batch_.NumReused(i) : 0;
    tokens_reused_ += num_reused;
    // The model counts the products of the whole step; each head needs the same for a sequence.
    const uint64_t num_products = Share(stats->query_key_products, batch_.NumProducts(i), all_products);
    const uint64_t num_again = sequence.OnComputed(plan[i].num_rows, num_reused, num_products);
    tokens_recomputed_ += num_again;
    tokens_computed_ -= num_again;
    if (sequence.num_pending() > 0) continue;
    OnPendingDone(plan[i], has_logits ? LogitRows(next_logits++, 1) : std::span<const float>());
  }
  DrawAll();
}

void StepRunner::OnPendingDone(const PlannedRows& rows, std::span<const float> logits) {
  const auto go_on = [&](Sequence& sequence) {
    if (!sequence.needs_logits()) return sequence.Finish(FinishReason::kLength);
    draws_.push_back({.sequence = &sequence, .logits = logits});
  };
  for (const auto& follower : rows.followers) follower->ForkPrompt(*rows.sequence);
  go_on(*rows.sequence);
  for (const auto& follower : rows.followers) go_on(*follower);
}

// A draw is a pass over the vocabulary: for many sequences together too much for one thread.
void StepRunner::DrawAll() {
  const auto draw = [this](uint64_t begin, uint64_t end) {
    for (uint64_t i = begin; i < end; ++i) draws_[i].token = draws_[i].sequence->DrawFrom(draws_[i].logits);
  };
  if (workers_ != nullptr && draws_.size() > 1) {
    workers_->Run([&](Worker& worker) {
      const Worker::Range part = worker.Part(draws_.size());
      draw(part.begin, part.end);
    });
  } else {
    draw(0, draws_.size());
  }
  for (const Draw& drawn : draws_) drawn.sequence->OnDrawn(drawn.token);
}

Status StepRunner::RunScore(ScoreJob& job, uint64_t max_rows) {
  const uint64_t max_scored = std::max<uint64_t>(1, kScoreLogitBytes / (vocab_size_ * sizeof(float)));
  uint64_t count = std::min(max_rows, job.num_pending());
  const uint64_t num_unscored = job.NumUnscored(count);
  count = std::min(count, num_unscored + max_scored);
  const uint64_t num_scored = count - num_unscored;

  batch_.Clear();
  AddRows(job.cache(), job.Pending(count), num_scored);
  KVERN_RETURN_IF_ERROR(Forward().status());
  if (is_cached_) tokens_reused_ += batch_.NumReused(0);
  return job.OnLogits(count, LogitRows(0, num_scored), kernels_, workers_);
}

Result<ForwardStats> StepRunner::Forward() {
  const uint64_t num_bytes = batch_.num_logit_rows() * vocab_size_ * sizeof(float);
  if (num_bytes > logits_.size()) {
    logits_ = AlignedBuffer();  // Frees before it allocates.
    KVERN_ASSIGN_OR_RETURN(logits_, HeapAllocator().Allocate(num_bytes));
  }
  Result<ForwardStats> stats = model_.Forward(batch_.Build(), LogitRows(0, batch_.num_logit_rows()));
  if (!stats.ok()) return stats;
  KVERN_DCHECK(stats->rows_computed == batch_.num_rows());
  ++num_steps_;
  query_key_products_ += stats->query_key_products;
  kv_values_lost_ += stats->kv_values_lost;
  tokens_computed_ += stats->rows_computed;
  return stats;
}

std::span<float> StepRunner::LogitRows(uint64_t first, uint64_t count) {
  if (count == 0) return {};
  return {logits_.as<float>() + first * vocab_size_, count * vocab_size_};
}

}  // namespace kvern
