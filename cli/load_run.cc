#include "cli/load_run.h"

#include <algorithm>
#include <utility>

#include "cli/interrupt.h"
#include "cli/output.h"

namespace kvern::cli {
namespace {

// Before the next try after a failure: a server that refuses everything is not to be asked in a tight loop.
constexpr double kPauseAfterFailureMs = 200;
// How long an answer takes, as far as hang-ups know before the first one is done.
constexpr double kAssumedLatencyMs = 1000;
constexpr std::chrono::milliseconds kProgressInterval{100};

enum Purpose : uint32_t { kIsHungUp = 100, kHangUpTime };  // Apart from those of texts.

}  // namespace

// Takes the reply to one request for the run.
class LoadRun::Sink : public server::ReplySink {
 public:
  Sink(LoadRun& run, std::shared_ptr<Conversation> conversation, double due_ms)
      : run_(run), conversation_(std::move(conversation)), answer_(due_ms) {}

  void OnHead(const server::HttpResponse& head) override { answer_.OnHead(head); }
  void OnBody(std::string_view bytes) override { answer_.OnBody(bytes, run_.NowMs()); }
  void OnEnd(const Status& status) override {
    const bool is_cut = run_.is_stopped_;
    answer_.OnEnd(status, run_.NowMs(), is_cut ? AnswerOutcome::kCut : AnswerOutcome::kHungUp);
    run_.OnAnswer(conversation_, answer_);
  }

 private:
  LoadRun& run_;
  std::shared_ptr<Conversation> conversation_;
  AnswerReader answer_;
};

LoadRun::LoadRun(const LoadPlan& plan, const Workload& workload, LoadAccess access,
                 std::unique_ptr<server::HttpClient> client)
    : plan_(plan),
      workload_(workload),
      access_(std::move(access)),
      owned_client_(std::move(client)),
      client_(owned_client_.get()),
      arrivals_(plan.rate, plan.seed) {}

double LoadRun::NowMs() const { return std::chrono::duration<double, std::milli>(Clock::now() - start_).count(); }

LoadRun::Clock::time_point LoadRun::At(double ms) const {
  return start_ + std::chrono::microseconds(static_cast<int64_t>(1000 * ms));
}

LoadOutcome LoadRun::Run(const std::function<bool()>& must_stop) {
  const OnInterrupt is_polled_for;
  ProgressBar bar("requests", 1000, /*shows_time_left=*/true);
  start_ = Clock::now();
  client_->RunAt(start_, [this] { Begin(); });
  while (!end_.try_acquire_for(kProgressInterval)) {
    bar.Update(Progress());
    if (!must_stop()) continue;
    is_stopped_ = true;
    break;
  }
  owned_client_.reset();  // Hangs up what is left and waits until its sinks have been told.
  if (is_stopped_) outcome_.wall_s = NowMs() / 1000;
  if (!HasAskedAll()) outcome_.num_never_asked = waiting_.size();
  return std::move(outcome_);
}

uint64_t LoadRun::Progress() const {
  const double by_number =
      plan_.num_requests == 0 ? 0 : static_cast<double>(num_ended_) / static_cast<double>(plan_.num_requests);
  const double by_time = plan_.duration_s == 0 ? 0 : NowMs() / (1000 * plan_.duration_s);
  return static_cast<uint64_t>(1000 * std::min(std::max(by_number, by_time), 1.0));
}

bool LoadRun::MayAsk() const {
  if (is_stopped_ || HasAskedAll()) return false;
  return plan_.duration_s == 0 || NowMs() < 1000 * plan_.duration_s;
}

void LoadRun::Begin() {
  if (plan_.rate > 0) return ScheduleArrival();
  for (uint32_t i = 0; i < plan_.num_clients && MayAsk(); ++i) BeginConversation(NowMs());
  CheckEnd();
}

void LoadRun::ScheduleArrival() {
  const double due_ms = 1000 * arrivals_.NextS();
  // Not MayAsk: what is due before the end arrives even where this thread is late.
  awaits_arrival_ = !is_stopped_ && !HasAskedAll() && (plan_.duration_s == 0 || due_ms < 1000 * plan_.duration_s);
  if (!awaits_arrival_) return CheckEnd();
  client_->RunAt(At(due_ms), [this, due_ms] {
    Arrive(due_ms);
    ScheduleArrival();
  });
}

void LoadRun::Arrive(double due_ms) {
  if (num_conversations_ < plan_.num_clients && MayAsk()) {
    BeginConversation(due_ms);
  } else {
    waiting_.push_back(due_ms);
  }
}

void LoadRun::BeginConversation(double due_ms) {
  ++num_conversations_;
  Ask(std::make_shared<Conversation>(workload_, plan_, next_conversation_++), due_ms);
}

void LoadRun::Ask(std::shared_ptr<Conversation> conversation, double due_ms) {
  ++num_asked_;
  outcome_.peak_at_once = std::max(outcome_.peak_at_once, ++num_under_way_);
  server::HttpCall call = {.method = "POST",
                           .path = plan_.is_chat ? "/v1/chat/completions" : "/v1/completions",
                           .headers = access_.headers,
                           .body = conversation->RequestBody(access_.model),
                           .hangs_up_after = HangUpTime(*conversation)};
  client_->Send(std::move(call), std::make_unique<Sink>(*this, std::move(conversation), due_ms));
}

// Which requests are hung up is the seed's choice, and the share of a usual answer after which it happens too.
std::optional<std::chrono::microseconds> LoadRun::HangUpTime(const Conversation& conversation) const {
  const auto uniform = [&](uint32_t purpose) {
    return UniformAt(plan_.seed, conversation.id(), conversation.turn(), purpose);
  };
  if (uniform(kIsHungUp) >= plan_.disconnect_share) return std::nullopt;
  const double usual_ms = num_done_ == 0 ? kAssumedLatencyMs : done_latency_ms_ / static_cast<double>(num_done_);
  return std::chrono::microseconds(static_cast<int64_t>(1000 * usual_ms * uniform(kHangUpTime)));
}

void LoadRun::OnAnswer(const std::shared_ptr<Conversation>& conversation, const AnswerReader& answer) {
  const AnswerSample& sample = answer.sample();
  outcome_.samples.push_back(sample);
  --num_under_way_;
  ++num_ended_;
  if (sample.outcome != AnswerOutcome::kDone) return Replace(sample.outcome == AnswerOutcome::kFailed);
  done_latency_ms_ += sample.latency_ms;
  ++num_done_;
  conversation->AddAnswer(answer.text());
  if (conversation->has_ended() || !MayAsk()) return Replace(/*pauses=*/false);
  Ask(conversation, NowMs());
}

void LoadRun::Replace(bool pauses) {
  // In the open loop the arrivals set the pace: a pause would be the tool's time, counted as the server's.
  if (pauses && plan_.rate == 0 && MayAsk()) {
    client_->RunAt(At(NowMs() + kPauseAfterFailureMs), [this] { Replace(/*pauses=*/false); });
    return;
  }
  --num_conversations_;
  if (MayAsk() && plan_.rate == 0) {
    BeginConversation(NowMs());
  } else if (MayAsk() && !waiting_.empty()) {
    const double due_ms = waiting_.front();
    waiting_.pop_front();
    BeginConversation(due_ms);
  }
  CheckEnd();
}

void LoadRun::CheckEnd() {
  if (has_ended_ || num_conversations_ > 0 || awaits_arrival_) return;
  has_ended_ = true;
  outcome_.wall_s = NowMs() / 1000;
  end_.release();
}

}  // namespace kvern::cli
