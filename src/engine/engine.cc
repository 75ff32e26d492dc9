#include "kvern/engine.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <future>
#include <iterator>
#include <limits>
#include <mutex>
#include <string>
#include <system_error>
#include <thread>
#include <utility>

#include "base/check.h"
#include "engine/engine_internal.h"
#include "engine/key_fields.h"
#include "engine/prefill_budget.h"
#include "engine/scheduler.h"
#include "engine/step_runner.h"
#include "kvcache/prefix_cache.h"
#include "platform/huge_pages.h"

namespace kvern {
namespace {

Status CheckTokens(const char* what, std::span<const TokenId> tokens, uint32_t vocab_size) {
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (tokens[i] >= 0 && static_cast<uint32_t>(tokens[i]) < vocab_size) continue;
    return Status::InvalidArgument(std::string(what) + "[" + std::to_string(i) + "] is token " +
                                   std::to_string(tokens[i]) + ", the vocabulary has " + std::to_string(vocab_size));
  }
  return Status::Ok();
}

constexpr char kMemoryAdvice[] =
    "; try a larger budget (--kv-budget), a smaller type of keys and values, or a window (--window)";

uint64_t NowMicros() {
  return static_cast<uint64_t>(
      std::chrono::duration_cast<std::chrono::microseconds>(std::chrono::steady_clock::now().time_since_epoch())
          .count());
}

uint64_t PinLimit(const CacheOptions& options) {
  return options.pin_limit_bytes != 0 ? options.pin_limit_bytes : options.budget_bytes / 4;
}

// A sequence that is preempted needs somewhere to be found again.
bool Overcommits(const EngineParts& parts) {
  return parts.options.cache.is_enabled && (parts.store != nullptr || parts.options.cache.overcommits);
}

// Callers put jobs into the inbox under mutex_ and wake the engine thread; everything else is the engine thread's
// alone.
class EngineImpl : public Engine {
 public:
  // prefix: may be null.
  EngineImpl(EngineParts parts, std::unique_ptr<PrefixCache> prefix);
  ~EngineImpl() override;

  Status Start();

  Result<TokenStream> Submit(Request request) override;
  Result<std::vector<TokenStream>> SubmitChoices(Request request, uint32_t count) override;
  Result<std::vector<TokenScore>> Score(const ScoreRequest& request, const ScoreProgress& progress) override;

  const Tokenizer& tokenizer() const override { return *parts_.tokenizer; }
  const ModelInfo& model_info() const override { return parts_.model_info; }
  const EngineOptions& options() const override { return parts_.options; }
  const CacheCost& cache_cost() const override { return parts_.cache_cost; }
  EngineStats Stats() const override;
  std::vector<TenantHolding> Holdings() override;
  uint64_t ClearCache(const std::optional<std::string>& salt) override;

 private:
  Status CheckLength(const char* what, uint64_t num_tokens) const;
  Status CheckRequest(const Request& request) const;
  Status CheckChoices(const Request& request, uint32_t count) const;
  Status CheckScore(const ScoreRequest& request) const;

  // Runs `question` on the engine thread between two steps; waits for it.
  void Ask(const std::function<void()>& question);

  // Engine thread.
  void RunLoop();
  void RunSequenceStep();
  // Waits for work; false when the engine ends.
  bool DrainInbox();
  void RunScoreStep();
  void FinishCancelled();
  void CloseFinished();
  void CancelEverything();
  void CountBegun(const RequestStats& stats);
  PrefixStats PrefixStatsNow() const;
  void PublishStats(uint64_t num_closed);

  EngineParts parts_;
  const std::unique_ptr<PrefixCache> prefix_;  // Goes before its cache.
  const Sequence::Context context_;
  Scheduler scheduler_;
  StepRunner steps_;
  PrefillBudget prefill_budget_;
  PrefixStats begun_;  // Its sums over requests.

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Job> inbox_;  // Guarded by mutex_, as are those below.
  std::vector<std::packaged_task<void()>> questions_;
  uint64_t num_open_requests_ = 0;  // Submitted and not closed.
  bool is_ending_ = false;
  EngineStats stats_;

  std::thread thread_;
};

EngineImpl::EngineImpl(EngineParts parts, std::unique_ptr<PrefixCache> prefix)
    : parts_(std::move(parts)),
      prefix_(std::move(prefix)),
      context_{*parts_.cache,
               prefix_.get(),
               parts_.store.get(),
               *parts_.tokenizer,
               *parts_.kernels,
               parts_.options.context_tokens,
               parts_.options.cache.is_enabled},
      scheduler_(*parts_.cache, prefix_.get(), PinLimit(parts_.options.cache), parts_.options.max_sequences,
                 Overcommits(parts_)),
      steps_(*parts_.model, *parts_.cache, prefix_.get(), *parts_.kernels, parts_.workers.get(),
             parts_.options.cache.is_enabled),
      prefill_budget_(uint64_t{parts_.options.step_budget_ms} * 1000, parts_.options.prefill_chunk) {
  PublishStats(/*num_closed=*/0);
}

EngineImpl::~EngineImpl() {
  {
    const std::lock_guard lock(mutex_);
    is_ending_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

Status EngineImpl::Start() {
  try {
    thread_ = std::thread([this] { RunLoop(); });
  } catch (const std::system_error& error) {
    return Status::ResourceExhausted(std::string("the engine thread cannot be started: ") + error.what());
  }
  return Status::Ok();
}

Status EngineImpl::CheckLength(const char* what, uint64_t num_tokens) const {
  const uint64_t context = parts_.options.context_tokens;
  if (num_tokens <= context) return Status::Ok();
  const std::string message = std::string(what) + " of " + std::to_string(num_tokens) + " tokens ";
  if (num_tokens > parts_.wanted_context_tokens) {
    return Status::InvalidArgument(message + "is longer than the context of " +
                                   std::to_string(parts_.wanted_context_tokens));
  }
  const KvCacheSpec& spec = parts_.cache->spec();
  return Status::ResourceExhausted(message + "needs " + std::to_string(spec.BytesOf(spec.MostBlocks(num_tokens))) +
                                   " bytes of KV cache, the budget of " +
                                   std::to_string(parts_.options.cache.budget_bytes) + " bytes has room for " +
                                   std::to_string(context) + " tokens" + kMemoryAdvice);
}

Status EngineImpl::CheckRequest(const Request& request) const {
  const uint32_t vocab_size = parts_.model->config().vocab_size;
  KVERN_RETURN_IF_ERROR(request.Validate());
  KVERN_RETURN_IF_ERROR(CheckLength("prompt: a prompt", request.prompt.size()));
  KVERN_RETURN_IF_ERROR(CheckTokens("prompt", request.prompt, vocab_size));
  std::vector<TokenId> biased;
  for (const auto& [token, bias] : request.sampling.logit_bias) biased.push_back(token);
  return CheckTokens("logit_bias", biased, vocab_size);
}

Status EngineImpl::CheckChoices(const Request& request, uint32_t count) const {
  if (count < 1 || count > parts_.options.max_sequences) {
    return Status::InvalidArgument(std::to_string(count) + " answers to one prompt, expected 1 to " +
                                   std::to_string(parts_.options.max_sequences) + " (max_sequences)");
  }
  if (count - 1 > std::numeric_limits<uint32_t>::max() - request.choice_index) {
    return Status::InvalidArgument("choice_index is " + std::to_string(request.choice_index) + ", too large for " +
                                   std::to_string(count) + " answers");
  }
  if (!parts_.options.cache.is_enabled) return Status::Ok();
  const KvCacheSpec& spec = parts_.cache->spec();
  const uint64_t max_slots = Sequence::MaxSlots(request, parts_.options.context_tokens);
  const BlockCounts needed = GroupBlocksFor(spec, count, request.prompt.size(), max_slots);
  if (FitsInto(needed, spec.PoolBlocks())) return Status::Ok();
  return Status::ResourceExhausted(
      std::to_string(count) + " answers of up to " + std::to_string(max_slots) + " tokens with one prompt of " +
      std::to_string(request.prompt.size()) + " need " + std::to_string(spec.BytesOf(needed)) +
      " bytes of KV cache, the budget has room for " + std::to_string(spec.BytesOf(spec.PoolBlocks())) + kMemoryAdvice);
}

Result<TokenStream> EngineImpl::Submit(Request request) {
  KVERN_ASSIGN_OR_RETURN(std::vector<TokenStream> streams, SubmitChoices(std::move(request), 1));
  return std::move(streams.front());
}

Result<std::vector<TokenStream>> EngineImpl::SubmitChoices(Request request, uint32_t count) {
  KVERN_RETURN_IF_ERROR(CheckRequest(request));
  KVERN_RETURN_IF_ERROR(CheckChoices(request, count));
  std::vector<TokenStream> streams;
  std::vector<Job> jobs;
  for (uint32_t i = 0; i < count; ++i) {
    auto stream = std::make_shared<TokenStream::State>();
    // Without the cache there is nothing to share: each answer is a group of its own.
    if (i == 0 || !parts_.options.cache.is_enabled) jobs.emplace_back(SequenceGroup());
    std::get<SequenceGroup>(jobs.back()).push_back(std::make_unique<Sequence>(context_, request, stream));
    streams.emplace_back(std::move(stream));
    ++request.choice_index;
  }
  {
    const std::lock_guard lock(mutex_);
    const uint64_t limit = uint64_t{parts_.options.max_sequences} + parts_.options.max_queued;
    if (num_open_requests_ + count > limit) {
      return Status::Unavailable("the queue is full: " + std::to_string(num_open_requests_) +
                                 " requests run or wait, limit " + std::to_string(limit) + "; " +
                                 std::to_string(count) + " more came");
    }
    num_open_requests_ += count;
    stats_.queued_requests += count;
    std::ranges::move(jobs, std::back_inserter(inbox_));
  }
  changed_.notify_all();
  return streams;
}

Status EngineImpl::CheckScore(const ScoreRequest& request) const {
  if (request.tokens.size() < 2) {
    return Status::InvalidArgument("tokens: " + std::to_string(request.tokens.size()) +
                                   " to score, expected two or more");
  }
  if (request.first_scored < 1 || request.first_scored >= request.tokens.size()) {
    return Status::InvalidArgument("first_scored is " + std::to_string(request.first_scored) + ", expected 1 to " +
                                   std::to_string(request.tokens.size() - 1));
  }
  KVERN_RETURN_IF_ERROR(CheckLength("tokens: a text", request.tokens.size()));
  return CheckTokens("tokens", request.tokens, parts_.model->config().vocab_size);
}

Result<std::vector<TokenScore>> EngineImpl::Score(const ScoreRequest& request, const ScoreProgress& progress) {
  KVERN_RETURN_IF_ERROR(CheckScore(request));
  auto job = std::make_shared<ScoreJob>(*parts_.cache, request);
  {
    const std::lock_guard lock(mutex_);
    inbox_.push_back(job);
  }
  changed_.notify_all();
  return job->Wait(progress);
}

EngineStats EngineImpl::Stats() const {
  EngineStats stats;
  {
    const std::lock_guard lock(mutex_);
    stats = stats_;
  }
  stats.load_us = parts_.load_us;
  stats.weight_bytes = parts_.model->weight_bytes();
  stats.huge_page_bytes = HugePageBytesInUse();
  return stats;
}

void EngineImpl::RunLoop() {
  if (parts_.on_engine_thread) parts_.on_engine_thread();
  while (DrainInbox()) {
    FinishCancelled();
    scheduler_.MakeRoom();  // Before others take it.
    scheduler_.Admit();
    RunSequenceStep();
    RunScoreStep();
    CloseFinished();
  }
  CancelEverything();
}

void EngineImpl::RunSequenceStep() {
  const std::vector<PlannedRows> plan =
      scheduler_.Plan(prefill_budget_.max_rows(), prefill_budget_.rows_beside_streams());
  if (plan.empty()) return;
  uint64_t num_prefill_rows = 0, num_streams = 0;
  for (const PlannedRows& rows : plan) {
    // A prompt of one token that is not cached looks like a stream; it costs as much.
    rows.num_rows > 1 ? num_prefill_rows += rows.num_rows : ++num_streams;
  }
  const uint64_t start = NowMicros();
  steps_.RunSequences(plan);
  prefill_budget_.OnStep(num_prefill_rows, num_streams > 0, NowMicros() - start);
}

bool EngineImpl::DrainInbox() {
  std::vector<std::packaged_task<void()>> questions;
  bool is_ending = false;
  {
    std::unique_lock lock(mutex_);
    if (scheduler_.is_idle()) {
      if (parts_.prefault != nullptr) parts_.prefault->Resume();
      changed_.wait(lock, [this] { return is_ending_ || !inbox_.empty() || !questions_.empty(); });
      if (parts_.prefault != nullptr) parts_.prefault->Pause();
    }
    for (Job& job : inbox_) scheduler_.Enqueue(std::move(job));
    inbox_.clear();
    questions.swap(questions_);
    is_ending = is_ending_;
  }
  scheduler_.ExpirePins(NowMicros());
  for (auto& question : questions) question();
  return !is_ending;
}

void EngineImpl::Ask(const std::function<void()>& question) {
  std::packaged_task<void()> task(question);
  std::future<void> is_done = task.get_future();
  {
    const std::lock_guard lock(mutex_);
    questions_.push_back(std::move(task));
  }
  changed_.notify_all();
  is_done.wait();
}

std::vector<TenantHolding> EngineImpl::Holdings() {
  std::vector<TenantHolding> holdings;
  if (prefix_ != nullptr) Ask([&] { holdings = prefix_->Holdings(); });
  return holdings;
}

uint64_t EngineImpl::ClearCache(const std::optional<std::string>& salt) {
  uint64_t num_bytes = 0;
  if (prefix_ == nullptr) return num_bytes;
  Ask([&] {
    const uint64_t free_bytes = parts_.cache->Stats().free_bytes;
    prefix_->Clear(salt.has_value() ? std::optional<std::string_view>(*salt) : std::nullopt);
    scheduler_.EndForgottenPins();
    num_bytes = parts_.cache->Stats().free_bytes - free_bytes;
    PublishStats(/*num_closed=*/0);
  });
  return num_bytes;
}

void EngineImpl::RunScoreStep() {
  ScoreJob* const job = scheduler_.FrontScore();
  if (job == nullptr) return;
  const uint64_t max_rows =
      scheduler_.num_running() > 0 ? prefill_budget_.rows_beside_streams() : prefill_budget_.max_rows();
  Status status = job->is_cancelled() ? Status::Cancelled("scoring was cancelled") : steps_.RunScore(*job, max_rows);
  if (status.ok() && job->num_pending() > 0) return;
  const std::shared_ptr<ScoreJob> done = scheduler_.TakeFrontScore();
  done->ReleaseBlocks();
  PublishStats(/*num_closed=*/0);
  done->Finish(std::move(status));
}

void EngineImpl::FinishCancelled() {
  scheduler_.ForEachSequence([](Sequence& sequence) {
    if (sequence.is_cancelled()) sequence.Finish(FinishReason::kCancelled);
  });
  CloseFinished();
}

// Blocks are back and counters published before anyone learns of the end.
void EngineImpl::CloseFinished() {
  const std::vector<std::unique_ptr<Sequence>> finished = scheduler_.TakeFinished();
  for (const auto& sequence : finished) {
    sequence->ReleaseBlocks();
    if (sequence->keep_seconds() > 0) scheduler_.Pin(*sequence, NowMicros());
    CountBegun(sequence->stats());
  }
  PublishStats(finished.size());
  for (const auto& sequence : finished) sequence->CloseStream();
}

void EngineImpl::CancelEverything() {
  scheduler_.ForEachSequence([](Sequence& sequence) { sequence.Finish(FinishReason::kCancelled); });
  CloseFinished();
  for (const auto& job : scheduler_.TakeAllScores()) {
    job->ReleaseBlocks();
    job->Finish(Status::Cancelled("the engine ends"));
  }
}

void EngineImpl::CountBegun(const RequestStats& stats) {
  begun_.first_time_tokens += stats.prompt_tokens_first_time;
  begun_.evicted_tokens += stats.prompt_tokens_evicted;
  begun_.diverged_tokens += stats.prompt_tokens_diverged;
  begun_.last_tokens += stats.prompt_tokens_last;
}

PrefixStats EngineImpl::PrefixStatsNow() const {
  PrefixStats stats = begun_;
  if (prefix_ == nullptr) return stats;
  const PrefixCounters counters = prefix_->Counters();
  stats.lookups = counters.lookups;
  stats.lookup_tokens = counters.lookup_tokens;
  stats.hit_tokens = counters.hit_tokens;
  stats.copied_tokens = counters.copied_tokens;
  stats.published_blocks = counters.published;
  stats.duplicate_blocks = counters.duplicates;
  for (const uint64_t num_evicted : counters.evicted) stats.evicted_blocks += num_evicted;
  stats.pinned_bytes = scheduler_.pinned_bytes();
  stats.refused_pins = scheduler_.num_refused_pins();
  return stats;
}

void EngineImpl::PublishStats(uint64_t num_closed) {
  const std::lock_guard lock(mutex_);
  num_open_requests_ -= num_closed;
  stats_.cache = parts_.cache->Stats();
  stats_.prefix = PrefixStatsNow();
  stats_.steps = steps_.num_steps();
  stats_.tokens_computed = steps_.tokens_computed();
  stats_.tokens_reused = steps_.tokens_reused();
  stats_.query_key_products = steps_.query_key_products();
  stats_.kv_values_lost = steps_.kv_values_lost();
  stats_.tokens_recomputed = steps_.tokens_recomputed();
  stats_.num_preemptions = scheduler_.num_preemptions();
  stats_.spilled_bytes = parts_.cache->spilled_bytes();
  stats_.restored_bytes = parts_.cache->restored_bytes();
  stats_.running_sequences = scheduler_.num_running();
  stats_.queued_requests = num_open_requests_ - scheduler_.num_running();
}

}  // namespace

Result<std::unique_ptr<Engine>> MakeEngine(EngineParts parts) {
  std::unique_ptr<PrefixCache> prefix;
  const CacheOptions& options = parts.options.cache;
  if (options.is_enabled && options.reuses_prefixes && parts.cache->spec().placement->shares_blocks()) {
    // Blocks stay in this process, where there is one model: no digest needs to tell it from others.
    KeyFields fields = MakeKeyFields(parts.options, parts.model->config(), parts.cache->spec(), /*model_digest=*/"");
    KVERN_ASSIGN_OR_RETURN(prefix, PrefixCache::Create(*parts.cache, std::move(fields), options.eviction_policy));
  }
  auto engine = std::make_unique<EngineImpl>(std::move(parts), std::move(prefix));
  KVERN_RETURN_IF_ERROR(engine->Start());
  return std::unique_ptr<Engine>(std::move(engine));
}

}  // namespace kvern
