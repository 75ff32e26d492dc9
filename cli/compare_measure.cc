#include "cli/compare_measure.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <utility>

#include "cli/interrupt.h"
#include "cli/output.h"
#include "kvern/cache_cost.h"

namespace kvern::cli {
namespace {

using Clock = std::chrono::steady_clock;

constexpr uint64_t kGib = uint64_t{1} << 30;
// A row of the reference and one of each candidate, against a token of a prompt without logits.
constexpr double kQualityWork = 1.4;
// Of a tensor, as f32 and int32.
constexpr uint64_t kScaleAndZeroBytes = 8;

double SecondsSince(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

// The end of `stream` where a token was expected.
Status Ended(const TokenStream& stream) {
  if (WasInterrupted()) return Status::Cancelled("interrupted");
  KVERN_RETURN_IF_ERROR(stream.status());
  return Status::ResourceExhausted("a sequence ended before its measurement did");
}

Status AwaitToken(TokenStream& stream) {
  while (const std::optional<TokenEvent> event = stream.Next()) {
    if (event->token >= 0) return Status::Ok();
  }
  return Ended(stream);
}

class Measurer {
 public:
  Measurer(CompareRun& run, uint64_t total_work) : run_(run), bar_("comparing", total_work, /*shows_time_left=*/true) {}

  Status MeasureSpeed(CompareResult& result) {
    KVERN_ASSIGN_OR_RETURN(const std::unique_ptr<Engine> engine,
                           Open(result.row, /*budget_bytes=*/0, /*num_sequences=*/1));
    result.context_bytes = engine->cache_cost().sequence_bytes;
    KVERN_RETURN_IF_ERROR(RunDepth(*engine, 16, 2).status());  // Warms memory and threads.
    std::vector<DepthResult> depths;
    for (const uint32_t depth : run_.plan.Depths()) {
      KVERN_ASSIGN_OR_RETURN(DepthRun made, RunDepth(*engine, depth, run_.plan.GeneratedBy(result.row)));
      result.stats = made.stats;
      depths.push_back(std::move(made.result));
      Advance(DepthWork(run_.plan, result.row, depth));
    }
    result.peak_bytes = engine->Stats().cache.peak_used_bytes;
    result.unused_bytes = UnusedBytes(result);
    result.depths = std::move(depths);
    return Status::Ok();
  }

  Status MeasureQualities(const std::vector<CacheOptions>& candidates, bool has_per_tensor_int8) {
    if (candidates.empty() && !has_per_tensor_int8) return Status::Ok();
    QualityRequest request;
    request.engine = run_.options;
    request.engine.activations = ActivationMode::kF32;  // Shows the codec alone (quality.h).
    request.candidates = candidates;
    request.has_per_tensor_int8 = has_per_tensor_int8;
    request.tokens = run_.text;
    request.num_scored = run_.plan.quality_tokens;
    request.sequence_tokens = std::min<uint32_t>(run_.plan.length, run_.model.context_tokens);
    uint64_t last = 0;
    const auto reports = kvern::MeasureQuality(request, [&](uint64_t done, uint64_t) {
      Advance(QualityWork(done - last, candidates.size(), has_per_tensor_int8));
      last = done;
      return !WasInterrupted();
    });
    KVERN_RETURN_IF_ERROR(reports.status());
    run_.quality_tokens_done = reports->front().all.num_tokens;
    QualityNumbers reference;  // Against itself.
    reference.num_tokens = run_.quality_tokens_done;
    reference.same_top.value = 1;
    for (CompareResult& result : run_.results) {
      result.quality = reference;
      for (const QualityReport& report : *reports) {
        if (report.is_per_tensor_int8 != result.row.is_per_tensor_int8) continue;
        if (HaveEqualLogits(report.cache, result.row.cache)) result.quality = report.all;
      }
    }
    return WasInterrupted() ? Status::Cancelled("interrupted") : Status::Ok();
  }

  static uint64_t QualityWork(uint64_t num_tokens, size_t num_candidates, bool has_per_tensor_int8) {
    const uint64_t num_passes = 1 + num_candidates + (has_per_tensor_int8 ? 2 : 0);  // One for its ranges.
    return static_cast<uint64_t>(kQualityWork * static_cast<double>(num_tokens * num_passes));
  }

  // Steps in which all sequences decode: from the first token of the last one on.
  Status MeasureBatch(CompareResult& result) {
    const uint32_t count = run_.plan.batch;
    KVERN_ASSIGN_OR_RETURN(const std::unique_ptr<Engine> engine, Open(result.row, count * result.context_bytes, count));
    std::vector<TokenStream> streams;
    for (uint32_t i = 0; i < count; ++i) {
      // The first ones decode while the prompts of the last are computed.
      KVERN_ASSIGN_OR_RETURN(TokenStream stream,
                             engine->Submit(RequestAt(i, run_.plan.batch_tokens, run_.plan.batch_steps * 2 + 1)));
      streams.push_back(std::move(stream));
    }
    const OnInterrupt cancel([&streams] {
      for (TokenStream& stream : streams) stream.Cancel();
    });
    for (TokenStream& stream : streams) KVERN_RETURN_IF_ERROR(AwaitToken(stream));
    const Clock::time_point start = Clock::now();
    for (uint32_t i = 0; i < run_.plan.batch_steps; ++i) KVERN_RETURN_IF_ERROR(AwaitToken(streams.back()));
    result.batch_tokens_per_s = static_cast<double>(count) * run_.plan.batch_steps / SecondsSince(start);
    Advance(BatchWork(run_.plan, result.row));
    return Status::Ok();
  }

 private:
  struct DepthRun {
    DepthResult result;
    RequestStats stats;
  };

  Result<std::unique_ptr<Engine>> Open(const CompareCase& row, uint64_t budget_bytes, uint32_t num_sequences) {
    EngineOptions options = run_.options;
    options.cache = row.cache;
    options.cache.reuses_prefixes = false;  // Each row and repetition computes all of its own.
    options.step_budget_ms = 0;
    options.context_tokens = run_.plan.ContextTokens(run_.model);
    options.max_sequences = num_sequences;
    options.cache.budget_bytes = budget_bytes;  // 0: what one sequence of the context needs.
    return Engine::Open(options, [](uint64_t, uint64_t) { return !WasInterrupted(); });
  }

  // Of the bytes held at the end of the deepest run, those that later tokens do not look at.
  uint64_t UnusedBytes(const CompareResult& result) const {
    const uint64_t num_tokens = result.row.cache.is_enabled
                                    ? result.stats.tokens_computed
                                    : result.stats.prompt_tokens + result.stats.generated_tokens - 1;
    const auto usages = ComparePlacements(run_.options.model_path, {result.row.cache},
                                          {static_cast<uint32_t>(num_tokens)}, run_.plan.ContextTokens(run_.model));
    if (!usages.ok()) return 0;
    return result.stats.kv_bytes - std::min(result.stats.kv_bytes, usages->front().used_bytes);
  }

  // Another beginning each time, so that no run finds the tokens of an earlier one in a cache.
  Request RequestAt(size_t offset, uint32_t num_tokens, uint32_t max_tokens) const {
    Request request;
    offset = std::min(offset, run_.text.size() - num_tokens);
    const auto begin = run_.text.begin() + static_cast<ptrdiff_t>(offset);
    request.prompt.assign(begin, begin + num_tokens);
    request.max_tokens = max_tokens;
    request.ends_at_eos = false;
    return request;
  }

  Result<DepthRun> RunDepth(Engine& engine, uint32_t depth, uint32_t count) {
    const Clock::time_point start = Clock::now();
    // Where a placement must know the longest course, it is told what a server could tell: the context.
    const bool is_cached = engine.options().cache.is_enabled;
    const uint32_t max_tokens = is_cached ? engine.options().context_tokens - depth : count + 1;
    KVERN_ASSIGN_OR_RETURN(TokenStream stream, engine.Submit(RequestAt(0, depth, max_tokens)));
    const OnInterrupt cancel([&stream] { stream.Cancel(); });
    KVERN_RETURN_IF_ERROR(AwaitToken(stream));
    DepthRun run;
    run.result.depth = depth;
    run.result.first_token_s = SecondsSince(start);
    Clock::time_point last = Clock::now();
    for (uint32_t i = 0; i < count; ++i) {
      KVERN_RETURN_IF_ERROR(AwaitToken(stream));
      const Clock::time_point now = Clock::now();
      run.result.token_seconds.push_back(std::chrono::duration<double>(now - last).count());
      last = now;
    }
    run.stats = stream.stats();  // Of these tokens: the engine may have begun another by now.
    stream.Cancel();
    while (stream.Next()) {
    }
    KVERN_RETURN_IF_ERROR(stream.status());
    run.stats.kv_bytes = stream.stats().kv_bytes;
    return run;
  }

  void Advance(uint64_t work) {
    work_done_ += work;
    bar_.Update(work_done_);
  }

  CompareRun& run_;
  ProgressBar bar_;
  uint64_t work_done_ = 0;
};

}  // namespace

Status MeasureCases(const std::vector<CompareCase>& cases, CompareRun& run) {
  const OnInterrupt keep_running;  // Rows that are done are still reported.
  const bool has_quality = run.plan.quality_tokens > 0;
  std::vector<CompareCase> possible;
  for (const CompareCase& row : cases) {
    CompareResult result;
    result.row = row;
    if (const Status status = PlanMemory(run, result); !status.ok()) {
      std::fprintf(stderr, "kvern: %s left out: %s\n", row.name.c_str(), status.message().c_str());
      continue;
    }
    possible.push_back(row);
    run.results.push_back(std::move(result));
  }
  if (possible.empty()) return Status::Unsupported("none of these rows is possible with this model");
  const std::vector<CacheOptions> candidates = QualityCandidates(possible);
  const bool has_per_tensor_int8 = std::ranges::any_of(possible, &CompareCase::is_per_tensor_int8);
  uint64_t work =
      has_quality ? Measurer::QualityWork(run.plan.quality_tokens, candidates.size(), has_per_tensor_int8) : 0;
  for (const CompareCase& row : possible) work += SpeedWork(run.plan, row) + BatchWork(run.plan, row);
  Measurer measurer(run, work);
  // A row that fails is said and leaves the others.
  Status first_error;
  const auto check = [&](const CompareResult& result, const Status& status) {
    if (status.ok()) return;
    std::fprintf(stderr, "kvern: %s: %s\n", result.row.name.c_str(), status.message().c_str());
    if (first_error.ok()) first_error = status;
  };
  for (CompareResult& result : run.results) {
    if (WasInterrupted()) return Status::Cancelled("interrupted");
    if (!result.row.is_per_tensor_int8) check(result, measurer.MeasureSpeed(result));
  }
  if (has_quality && !WasInterrupted()) {
    KVERN_RETURN_IF_ERROR(measurer.MeasureQualities(candidates, has_per_tensor_int8));
  }
  for (CompareResult& result : run.results) {
    if (WasInterrupted()) return Status::Cancelled("interrupted");
    if (run.plan.batch > 0 && result.row.cache.is_enabled && result.context_bytes > 0) {
      check(result, measurer.MeasureBatch(result));
    }
  }
  return first_error;
}

double PercentileOf(std::vector<double> samples, double q) {
  if (samples.empty()) return 0;
  std::ranges::sort(samples);
  const double rank = std::ceil(q * static_cast<double>(samples.size()));
  return samples[static_cast<size_t>(std::clamp(rank, 1.0, static_cast<double>(samples.size()))) - 1];
}

namespace {

// As if blocks of such values could be: 8 bits each, and the scales of all tensors.
Status PlanPerTensorInt8(const CompareRun& run, CompareResult& result) {
  if (run.plan.quality_tokens == 0) return Status::InvalidArgument("it has quality only, and --quality-tokens is 0");
  const uint64_t num_tensors = 2 * uint64_t{run.model.num_layers};
  result.bytes_per_token = num_tensors * run.model.num_kv_heads * run.model.head_dim;
  result.peak_bytes =
      (uint64_t{run.plan.length} + run.plan.num_generated) * result.bytes_per_token + num_tensors * kScaleAndZeroBytes;
  return Status::Ok();
}

}  // namespace

Status PlanMemory(const CompareRun& run, CompareResult& result) {
  if (result.row.is_per_tensor_int8) return PlanPerTensorInt8(run, result);
  result.bytes_per_token = run.model.KvBytesPerToken(result.row.cache.k_type, result.row.cache.v_type);
  const uint32_t context = run.plan.ContextTokens(run.model);
  const uint32_t num_tokens = std::clamp(run.plan.batch_tokens, 1u, context);
  KVERN_ASSIGN_OR_RETURN(const auto usages,
                         ComparePlacements(run.options.model_path, {result.row.cache}, {num_tokens}, context));
  const PlacementUsage& usage = usages.front();
  if (!usage.unavailable.empty()) return Status::Unsupported(usage.unavailable);
  result.sequences_per_gib = usage.reserved_bytes == 0 ? 0 : kGib / usage.reserved_bytes;
  return Status::Ok();
}

}  // namespace kvern::cli
