#include "cli/bench_measure.h"

#include <algorithm>
#include <chrono>
#include <functional>
#include <optional>
#include <utility>

#include "cli/generation.h"
#include "cli/interrupt.h"
#include "cli/measurement.h"
#include "cli/output.h"

namespace kvern::cli {
namespace {

using Clock = std::chrono::steady_clock;
using OnSample = std::function<void(double tokens_per_second)>;

// The end of `stream` where a token was expected.
Status Ended(const TokenStream& stream) {
  if (WasInterrupted()) return Status::Cancelled("interrupted");
  KVERN_RETURN_IF_ERROR(stream.status());
  return Status::ResourceExhausted("a sequence ended before the measurement did");
}

Status AwaitTokens(TokenStream& stream, uint32_t count) {
  while (count > 0) {
    const std::optional<TokenEvent> event = stream.Next();
    if (!event.has_value()) return Ended(stream);
    count -= event->token >= 0 ? 1 : 0;
  }
  return Status::Ok();
}

class Measurer {
 public:
  Measurer(Engine& engine, const BenchPlan& plan) : engine_(engine), plan_(plan) {}

  // One run of the row: SamplesPerRun samples.
  Status Run(const BenchRow& row, const OnSample& on_sample) {
    return row.kind == BenchKind::kPrefill ? RunPrefill(row, on_sample) : RunDecode(row, on_sample);
  }

 private:
  // Another prompt each time, so that no run finds the tokens of an earlier one in a cache.
  Request NextRequest(const BenchRow& row) {
    Request request;
    request.prompt = BenchTokens(plan_.PromptTokens(row), engine_.model_info().vocab_size, series_++);
    request.max_tokens = plan_.AnswerTokens(row);
    request.ends_at_eos = false;
    return request;
  }

  Status RunPrefill(const BenchRow& row, const OnSample& on_sample) {
    KVERN_ASSIGN_OR_RETURN(const Generation made, Generate(engine_, NextRequest(row)));
    if (WasInterrupted()) return Status::Cancelled("interrupted");
    on_sample(PrefillRate(made.stats));
    return Status::Ok();
  }

  // Steps in which all sequences decode: from the first token of the last one on, each step gives one token to each.
  Status RunDecode(const BenchRow& row, const OnSample& on_sample) {
    KVERN_ASSIGN_OR_RETURN(std::vector<TokenStream> streams, Submit(row));
    const OnInterrupt cancel([&streams] {
      for (TokenStream& stream : streams) stream.Cancel();
    });
    for (TokenStream& stream : streams) KVERN_RETURN_IF_ERROR(AwaitTokens(stream, 1));
    Clock::time_point begin = Clock::now();
    for (uint32_t i = 0; i < plan_.SamplesPerRun(row); ++i) {
      KVERN_RETURN_IF_ERROR(AwaitTokens(streams.back(), plan_.num_generated));
      const Clock::time_point end = Clock::now();
      // The first one has generated most.
      if (row.num_sequences > 1 && streams.front().finish_reason() != FinishReason::kNone)
        return Ended(streams.front());
      const double tokens = static_cast<double>(row.num_sequences) * plan_.num_generated;
      on_sample(tokens / std::chrono::duration<double>(end - begin).count());
      begin = end;
    }
    return Status::Ok();
  }

  Result<std::vector<TokenStream>> Submit(const BenchRow& row) {
    if (row.shared_prompt != 0) return engine_.SubmitChoices(NextRequest(row), row.num_sequences);
    std::vector<TokenStream> streams;
    for (uint32_t i = 0; i < row.num_sequences; ++i) {
      KVERN_ASSIGN_OR_RETURN(TokenStream stream, engine_.Submit(NextRequest(row)));
      streams.push_back(std::move(stream));
    }
    return streams;
  }

  Engine& engine_;
  const BenchPlan& plan_;
  uint64_t series_ = 0;
};

}  // namespace

Status MeasureRows(Engine& engine, const BenchPlan& plan, bool is_probing, std::vector<BenchRow>& rows) {
  const OnInterrupt keep_running;  // Rows that are done are still reported.
  Measurer measurer(engine, plan);
  ProgressBar bar("measuring", rows.size() * plan.repetitions);
  uint64_t done = 0;
  if (!rows.empty()) KVERN_RETURN_IF_ERROR(measurer.Run(rows.front(), [](double) {}));  // Warms caches and threads.
  for (BenchRow& row : rows) {
    if (WasInterrupted()) return Status::Cancelled("interrupted");
    if (is_probing) row.limits = ProbeMachineLimits(engine.options().num_threads);
    while (row.samples.size() < plan.repetitions) {
      KVERN_RETURN_IF_ERROR(measurer.Run(row, [&](double rate) {
        row.samples.push_back(rate);
        bar.Update(++done);
      }));
    }
  }
  return Status::Ok();
}

}  // namespace kvern::cli
