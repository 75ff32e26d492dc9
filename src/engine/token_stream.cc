#include "kvern/token_stream.h"

#include <utility>

#include "engine/token_stream_state.h"

namespace kvern {

std::string_view FinishReasonName(FinishReason reason) {
  switch (reason) {
    case FinishReason::kNone: return "none";
    case FinishReason::kEndOfText: return "end of text";
    case FinishReason::kLength: return "length";
    case FinishReason::kStopString: return "stop string";
    case FinishReason::kCancelled: return "cancelled";
  }
  return "none";
}

void TokenStream::State::SetDivergence(std::optional<PromptDivergence> found) {
  const std::lock_guard lock(mutex);
  divergence = std::move(found);
}

void TokenStream::State::Emit(TokenEvent event, const RequestStats& stats_so_far) {
  {
    const std::lock_guard lock(mutex);
    events.push_back({std::move(event), stats_so_far});
    if (wake) wake();
  }
  changed.notify_all();
}

void TokenStream::State::Finish(FinishReason finish_reason, Status finish_status, const RequestStats& stats_at_end) {
  {
    const std::lock_guard lock(mutex);
    is_finished = true;
    reason = finish_reason;
    status = std::move(finish_status);
    final_stats = stats_at_end;
    if (wake) wake();
  }
  changed.notify_all();
}

std::optional<TokenEvent> TokenStream::State::Take() {
  if (events.empty()) {
    if (is_finished) read_stats = final_stats;
    return std::nullopt;
  }
  Made made = std::move(events.front());
  events.pop_front();
  read_stats = made.stats;
  return std::move(made.event);
}

TokenStream::TokenStream(std::shared_ptr<State> state) : state_(std::move(state)) {}
TokenStream::TokenStream(TokenStream&&) noexcept = default;

TokenStream& TokenStream::operator=(TokenStream&& other) noexcept {
  if (this != &other) {
    Abandon();
    state_ = std::move(other.state_);
  }
  return *this;
}

TokenStream::~TokenStream() { Abandon(); }

void TokenStream::Abandon() {
  Cancel();
  OnReady({});
}

std::optional<TokenEvent> TokenStream::Next() {
  if (state_ == nullptr) return std::nullopt;
  std::unique_lock lock(state_->mutex);
  state_->changed.wait(lock, [this] { return !state_->events.empty() || state_->is_finished; });
  return state_->Take();
}

std::optional<TokenEvent> TokenStream::Poll() {
  if (state_ == nullptr) return std::nullopt;
  const std::lock_guard lock(state_->mutex);
  return state_->Take();
}

std::optional<PromptDivergence> TokenStream::divergence() const {
  if (state_ == nullptr) return std::nullopt;
  const std::lock_guard lock(state_->mutex);
  return state_->divergence;
}

bool TokenStream::is_done() const {
  if (state_ == nullptr) return true;
  const std::lock_guard lock(state_->mutex);
  if (!state_->is_finished || !state_->events.empty()) return false;
  state_->read_stats = state_->final_stats;
  return true;
}

void TokenStream::OnReady(std::function<void()> wake) {
  if (state_ == nullptr) return;
  const std::lock_guard lock(state_->mutex);
  state_->wake = std::move(wake);
  if (state_->wake && (!state_->events.empty() || state_->is_finished)) state_->wake();
}

void TokenStream::Cancel() {
  if (state_ != nullptr) state_->is_cancelled = true;
}

Status TokenStream::status() const {
  if (state_ == nullptr) return Status::Ok();
  const std::lock_guard lock(state_->mutex);
  return state_->status;
}

FinishReason TokenStream::finish_reason() const {
  if (state_ == nullptr) return FinishReason::kNone;
  const std::lock_guard lock(state_->mutex);
  return state_->reason;
}

RequestStats TokenStream::stats() const {
  if (state_ == nullptr) return {};
  const std::lock_guard lock(state_->mutex);
  return state_->read_stats;
}

}  // namespace kvern
