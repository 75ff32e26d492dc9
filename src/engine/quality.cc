#include "kvern/quality.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <utility>

#include "base/aligned_buffer.h"
#include "engine/batch_builder.h"
#include "engine/cache_plan.h"
#include "engine/key_centres.h"
#include "engine/per_tensor_int8.h"
#include "engine/quality_lock_step.h"
#include "engine/quality_statistics.h"
#include "kernels/numerics_version.h"
#include "kvern/engine.h"
#include "platform/huge_pages.h"

namespace kvern {
namespace {

// Logits of one step, for the reference and for one candidate at a time: enough rows to keep products large.
constexpr uint64_t kLogitBytes = 64u << 20;

}  // namespace

LockStep::LockStep(LoadedModel& loaded, uint32_t max_rows)
    : model_(*loaded.model),
      tokenizer_(*loaded.tokenizer),
      kernels_(*loaded.kernels),
      workers_(*loaded.workers),
      vocab_size_(model_.config().vocab_size),
      rows_per_step_(
          static_cast<uint32_t>(std::clamp<uint64_t>(kLogitBytes / (sizeof(float) * vocab_size_), 1, max_rows))) {}

Status LockStep::Reserve() {
  const uint64_t row_bytes = vocab_size_ * sizeof(float);
  KVERN_ASSIGN_OR_RETURN(reference_logits_, HugePageAllocator().Allocate(rows_per_step_ * row_bytes));
  KVERN_ASSIGN_OR_RETURN(candidate_logits_, HugePageAllocator().Allocate(rows_per_step_ * row_bytes));
  KVERN_ASSIGN_OR_RETURN(scratch_, HugePageAllocator().Allocate(workers_.num_threads() * row_bytes));
  return Status::Ok();
}

Status LockStep::AddSide(EngineOptions options, const CacheOptions& cache, uint32_t max_tokens, KvEditor editor) {
  options.cache = cache;
  options.cache.is_enabled = true;
  options.cache.budget_bytes = 0;  // What one sequence needs.
  options.context_tokens = max_tokens;
  KVERN_ASSIGN_OR_RETURN(CachePlan plan, PlanCache(options, model_.config()));
  Side side;
  KVERN_ASSIGN_OR_RETURN(side.cache, KvCache::Create(std::move(plan.spec), HugePageAllocator()));
  KVERN_RETURN_IF_ERROR(CentreKeys(*side.cache, model_, tokenizer_));
  side.sequence = std::make_unique<SequenceCache>(*side.cache, max_tokens);
  side.batch = std::make_unique<BatchBuilder>(*side.cache);
  side.editor = std::move(editor);
  sides_.push_back(std::move(side));
  return Status::Ok();
}

Status LockStep::Observe(std::span<const TokenId> tokens, const RowsObserver& on_rows,
                         const std::function<bool()>& goes_on) {
  const uint64_t num_rows = tokens.size() - 1;
  for (uint64_t begin = 0; begin < num_rows; begin += rows_per_step_) {
    if (!goes_on()) return Status::Cancelled("the measurement was cancelled");
    const uint64_t count = std::min<uint64_t>(rows_per_step_, num_rows - begin);
    const AttentionObserver observer = [&](const AttentionRows& rows) {
      if (rows.is_rotated) on_rows(rows, count);
    };
    KVERN_RETURN_IF_ERROR(Forward(sides_.front(), tokens.subspan(begin, count), {}, &observer));
  }
  sides_.front().sequence->Release();
  return Status::Ok();
}

Result<bool> LockStep::RunSequence(std::span<const TokenId> tokens, const std::function<bool(uint64_t)>& progress) {
  const uint64_t num_rows = tokens.size() - 1;
  for (uint64_t begin = 0; begin < num_rows; begin += rows_per_step_) {
    const uint64_t count = std::min<uint64_t>(rows_per_step_, num_rows - begin);
    const std::span<const TokenId> targets = tokens.subspan(begin + 1, count);
    KVERN_RETURN_IF_ERROR(Forward(sides_.front(), tokens.subspan(begin, count), Rows(reference_logits_, count)));
    for (Side& side : std::span(sides_).subspan(1)) {
      KVERN_RETURN_IF_ERROR(Forward(side, tokens.subspan(begin, count), Rows(candidate_logits_, count)));
      Compare(side, static_cast<uint32_t>(begin), targets);
    }
    KVERN_RETURN_IF_ERROR(CheckReference(begin, count));
    if (progress && !progress(count)) return false;
  }
  for (Side& side : sides_) side.sequence->Release();
  return true;
}

Status LockStep::Forward(Side& side, std::span<const TokenId> tokens, std::span<float> logits,
                         const AttentionObserver* observer) {
  side.batch->Clear();
  side.batch->Add(*side.sequence, tokens, logits.size() / vocab_size_);
  ForwardBatch batch = side.batch->Build();
  batch.attention_observer = observer;
  if (side.editor) batch.kv_editor = &side.editor;
  KVERN_RETURN_IF_ERROR(model_.Forward(batch, logits).status());
  side.sequence->Commit(tokens.size());
  return Status::Ok();
}

void LockStep::Compare(Side& side, uint32_t first_position, std::span<const TokenId> targets) {
  const size_t first = side.rows.size();
  side.rows.resize(first + targets.size());
  workers_.Run([&](Worker& worker) {
    const std::span<float> scratch(scratch_.as<float>() + worker.index() * vocab_size_, vocab_size_);
    const Worker::Range part = worker.Part(targets.size());
    for (uint64_t i = part.begin; i < part.end; ++i) {
      side.rows[first + i] = {
          first_position + static_cast<uint32_t>(i),
          CompareRows(Row(reference_logits_, i), Row(candidate_logits_, i), targets[i], kernels_, scratch)};
    }
  });
}

Status LockStep::CheckReference(uint64_t first_position, uint64_t count) const {
  const std::span<const PositionedRow> rows = std::span(sides_.back().rows).last(count);
  for (uint64_t i = 0; i < count; ++i) {
    if (std::isfinite(rows[i].divergence.reference_nll)) continue;
    return Status::Corruption("the model's logits are not finite after token " + std::to_string(first_position + i) +
                              " of a sequence, with f32 keys and values too: see kvern diagnose");
  }
  return Status::Ok();
}

QualityReport LockStep::ReportOf(size_t candidate) const {
  QualityReport report;
  std::vector<RowDivergence> all;
  uint32_t longest = 0;
  for (const PositionedRow& row : sides_[candidate + 1].rows) {
    all.push_back(row.divergence);
    longest = std::max(longest, row.position + 1);
  }
  report.all = Summarise(all);
  const std::vector<uint32_t> borders = BucketBorders(longest);
  for (size_t i = 0; i + 1 < borders.size(); ++i) {
    std::vector<RowDivergence> rows;
    for (const PositionedRow& row : sides_[candidate + 1].rows) {
      if (row.position >= borders[i] && row.position < borders[i + 1]) rows.push_back(row.divergence);
    }
    report.buckets.push_back({borders[i], borders[i + 1], Summarise(rows)});
  }
  return report;
}

namespace {

// Sequences of `sequence_tokens` rows; the token after the last row of each is only a target.
std::vector<std::span<const TokenId>> CutText(std::span<const TokenId> tokens, uint64_t num_scored,
                                              uint32_t sequence_tokens) {
  std::vector<std::span<const TokenId>> sequences;
  uint64_t left = num_scored;
  for (uint64_t begin = 0; left > 0; begin += sequence_tokens) {
    const uint64_t num_rows = std::min<uint64_t>(sequence_tokens, left);
    sequences.push_back(tokens.subspan(begin, num_rows + 1));
    left -= num_rows;
  }
  return sequences;
}

// What 8 bits with the ranges of the whole text make of rows.
Result<KvEditor> PerTensorEditor(LockStep& steps, const ModelConfig& config,
                                 const std::vector<std::span<const TokenId>>& sequences,
                                 const std::function<bool()>& goes_on) {
  PerTensorInt8 tensors(config);
  const auto add = [&](const AttentionRows& rows, uint64_t num_rows) { tensors.Add(rows, num_rows); };
  for (const std::span<const TokenId> sequence : sequences) {
    KVERN_RETURN_IF_ERROR(steps.Observe(sequence, add, goes_on));
  }
  return tensors.Editor();
}

Status CheckRequest(const QualityRequest& request, const ModelConfig& config) {
  if (request.candidates.empty() && !request.has_per_tensor_int8) {
    return Status::InvalidArgument("candidates is empty: there is nothing to compare");
  }
  if (request.tokens.size() < 2 || request.num_scored >= request.tokens.size()) {
    return Status::InvalidArgument("the text has " + std::to_string(request.tokens.size()) + " tokens, expected " +
                                   std::to_string(std::max<uint64_t>(request.num_scored + 1, 2)) + " or more");
  }
  if (request.sequence_tokens < 1 || request.sequence_tokens > config.context_tokens) {
    return Status::InvalidArgument("sequence_tokens is " + std::to_string(request.sequence_tokens) +
                                   ", expected 1 to the model's context of " + std::to_string(config.context_tokens));
  }
  for (const TokenId token : request.tokens) {
    if (token >= 0 && static_cast<uint32_t>(token) < config.vocab_size) continue;
    return Status::InvalidArgument("token " + std::to_string(token) + " is outside the vocabulary of " +
                                   std::to_string(config.vocab_size));
  }
  return Status::Ok();
}

}  // namespace

Result<std::vector<QualityReport>> MeasureQuality(LoadedModel& loaded, const QualityRequest& request,
                                                  const QualityProgress& progress) {
  const ModelConfig& config = loaded.model->config();
  KVERN_RETURN_IF_ERROR(CheckRequest(request, config));
  const uint64_t num_scored = request.num_scored != 0 ? request.num_scored : request.tokens.size() - 1;
  const auto max_rows = static_cast<uint32_t>(std::min<uint64_t>(request.sequence_tokens, num_scored));
  LockStep steps(loaded, request.engine.prefill_chunk);
  KVERN_RETURN_IF_ERROR(steps.Reserve());
  CacheOptions reference;
  reference.k_type = reference.v_type = KvType::kF32;
  KVERN_RETURN_IF_ERROR(steps.AddSide(request.engine, reference, max_rows));
  for (const CacheOptions& candidate : request.candidates) {
    KVERN_RETURN_IF_ERROR(steps.AddSide(request.engine, candidate, max_rows));
  }

  const std::vector<std::span<const TokenId>> sequences = CutText(request.tokens, num_scored, request.sequence_tokens);
  if (request.has_per_tensor_int8) {
    const auto goes_on = [&] { return !progress || progress(0, num_scored); };
    KVERN_ASSIGN_OR_RETURN(KvEditor editor, PerTensorEditor(steps, config, sequences, goes_on));
    KVERN_RETURN_IF_ERROR(steps.AddSide(request.engine, reference, max_rows, std::move(editor)));
  }

  uint64_t done = 0;
  const auto on_step = [&](uint64_t count) {
    done += count;
    return !progress || progress(done, num_scored);
  };
  for (const std::span<const TokenId> sequence : sequences) {
    KVERN_ASSIGN_OR_RETURN(const bool goes_on, steps.RunSequence(sequence, on_step));
    if (!goes_on) break;
  }
  std::vector<QualityReport> reports;
  for (size_t i = 0; i < request.candidates.size(); ++i) {
    reports.push_back(steps.ReportOf(i));
    reports.back().cache = request.candidates[i];
  }
  if (request.has_per_tensor_int8) {
    reports.push_back(steps.ReportOf(request.candidates.size()));
    reports.back().cache = reference;
    reports.back().is_per_tensor_int8 = true;
  }
  return reports;
}

uint32_t NumericsVersion() { return kNumericsVersion; }

Result<std::vector<QualityReport>> MeasureQuality(const QualityRequest& request, const QualityProgress& progress) {
  KVERN_RETURN_IF_ERROR(request.engine.Validate());
  for (const CacheOptions& candidate : request.candidates) KVERN_RETURN_IF_ERROR(candidate.Validate());
  KVERN_ASSIGN_OR_RETURN(LoadedModel loaded,
                         LoadModelAlone(request.engine, [&] { return !progress || progress(0, request.num_scored); }));
  return MeasureQuality(loaded, request, progress);
}

}  // namespace kvern
