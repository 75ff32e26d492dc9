#include "engine/sequence.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace kvern {
namespace {

uint64_t MaxAnswerTokens(const Request& request, uint32_t context_tokens) {
  return std::min<uint64_t>(request.max_tokens, context_tokens - request.prompt.size());
}

uint64_t MicrosBetween(Sequence::Clock::time_point from, Sequence::Clock::time_point to) {
  return static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::microseconds>(to - from).count());
}

}  // namespace

uint64_t Sequence::MaxSlots(const Request& request, uint32_t context_tokens) {
  const uint64_t max_tokens = MaxAnswerTokens(request, context_tokens);
  return request.prompt.size() + (max_tokens > 0 ? max_tokens - 1 : 0);
}

Sequence::Sequence(const Context& context, Request request, std::shared_ptr<TokenStream::State> stream)
    : is_cached_(context.is_cached),
      tokenizer_(context.tokenizer),
      ends_at_eos_(request.ends_at_eos),
      max_tokens_(MaxAnswerTokens(request, context.context_tokens)),
      max_slots_(MaxSlots(request, context.context_tokens)),
      stream_(std::move(stream)),
      tokens_(std::move(request.prompt)),
      cache_(context.cache, max_slots_),
      spill_(context.store != nullptr ? std::make_unique<SequenceSpill>(context.cache, *context.store) : nullptr),
      sampler_(std::move(request.sampling), request.choice_index, context.kernels, tokens_.size()),
      logprobs_(request.wants_logprobs ? std::make_unique<LogprobReader>(request.num_top_logprobs, context.kernels)
                                       : nullptr),
      decoder_(context.tokenizer),
      stop_checker_(std::move(request.stop)),
      submitted_(Clock::now()) {
  KVERN_CHECK(!tokens_.empty() && tokens_.size() <= context.context_tokens);
  stats_.prompt_tokens = tokens_.size();
}

void Sequence::ForkPrompt(const Sequence& other) {
  KVERN_CHECK(cache_.Fork(other.cache_).ok());  // Admission saw to the room.
  OnPromptFound(other);
}

void Sequence::TakeOverPrompt(Sequence& other) {
  cache_.TakeOver(other.cache_);
  OnPromptFound(other);
}

// Its prompt began when that of `other` did.
void Sequence::OnPromptFound(const Sequence& other) {
  stats_.prompt_tokens_reused = cache_.num_tokens();
  first_step_ = other.first_step_;
  stats_.queue_us = other.stats_.queue_us;
}

void Sequence::Preempt() {
  KVERN_CHECK(spill_ != nullptr);
  ++stats_.num_preemptions;
  const uint64_t num_computed_before = num_computed();
  if (spill_->MoveOut(cache_).ok()) return;
  num_lost_ += num_computed_before;
  cache_.Release();
}

void Sequence::Resume() {
  if (spill_->num_bytes() == 0) return;
  const uint64_t num_kept = spill_->num_tokens();
  if (!spill_->MoveIn(cache_).ok()) num_lost_ += num_kept;
}

void Sequence::OnStepBegin() {
  ++stats_.steps;
  if (first_step_.has_value()) return;
  first_step_ = Clock::now();
  stats_.queue_us = MicrosBetween(submitted_, *first_step_);
}

uint64_t Sequence::OnComputed(uint64_t count, uint64_t num_reused, uint64_t query_key_products) {
  const uint64_t num_again = std::min(count, num_lost_);
  num_lost_ -= num_again;
  stats_.tokens_recomputed += num_again;
  stats_.tokens_computed += count - num_again;
  if (!is_prefilled_) stats_.prompt_tokens_computed += count - num_again;
  stats_.tokens_reused += num_reused;
  stats_.query_key_products += query_key_products;
  cache_.Commit(count);
  return num_again;
}

Result<TokenId> Sequence::DrawFrom(std::span<const float> logits) {
  Result<TokenId> token = sampler_.Sample(logits, tokens_);
  if (token.ok() && logprobs_ != nullptr) logprobs_->Read(logits, *token);
  return token;
}

void Sequence::OnDrawn(const Result<TokenId>& token) {
  KVERN_DCHECK(num_pending() == 0);
  if (!token.ok()) return Finish(FinishReason::kNone, token.status());
  if (ends_at_eos_ && tokenizer_.IsEndOfGeneration(*token)) return Finish(FinishReason::kEndOfText);
  Accept(*token);
}

void Sequence::Accept(TokenId token) {
  tokens_.push_back(token);
  ++stats_.generated_tokens;
  const auto now = Clock::now();
  if (!is_prefilled_) {
    is_prefilled_ = true;
    prefill_end_ = now;
    stats_.prefill_us = MicrosBetween(*first_step_, now);
  }
  stats_.decode_us = MicrosBetween(prefill_end_, now);

  Emit(token, stop_checker_.Push(decoder_.Push(token)));
  if (stop_checker_.is_stopped()) return Finish(FinishReason::kStopString);
  if (stats_.generated_tokens == max_tokens_) return Finish(FinishReason::kLength);
  if (!is_cached_) KVERN_CHECK(cache_.Truncate(0).ok());
}

void Sequence::Finish(FinishReason reason, Status status) {
  KVERN_CHECK(!is_finished_);
  is_finished_ = true;
  reason_ = reason;
  status_ = std::move(status);
  stats_.kv_bytes = cache_.num_bytes();
  if (first_step_.has_value() && !is_prefilled_) stats_.prefill_us = MicrosBetween(*first_step_, Clock::now());
  std::string text = stop_checker_.Push(decoder_.Finish());
  text += stop_checker_.Finish();
  if (!text.empty()) Emit(-1, std::move(text));
}

void Sequence::ReleaseBlocks() {
  cache_.Release();
  if (spill_ != nullptr) spill_->Drop();
}

void Sequence::CloseStream() {
  KVERN_CHECK(is_finished_);
  stream_->Finish(reason_, status_, stats_);
}

void Sequence::Emit(TokenId token, std::string text) {
  TokenEvent event = {.token = token, .text = std::move(text)};
  if (token >= 0 && logprobs_ != nullptr) {
    event.logprob = logprobs_->drawn();
    event.top_logprobs = logprobs_->top();
  }
  stream_->Emit(std::move(event), stats_);
}

}  // namespace kvern
