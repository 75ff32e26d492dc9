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
      prefix_(context.prefix),
      tenant_(std::move(request.tenant)),
      salt_(std::move(request.cache_salt)),
      keep_seconds_(request.keep_seconds),
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

void Sequence::MakeChain() {
  if (has_chain_) return;
  chain_ = prefix_->NewChain(salt_, tenant_);
  has_chain_ = true;
}

PrefixMatch Sequence::Match() {
  if (prefix_ == nullptr) return {};
  MakeChain();
  return prefix_->Match(tokens_, tokens_.size() - 1, chain_);
}

PrefixMatch Sequence::MatchWithRoom() {
  MakeChain();
  return prefix_->MatchWithRoom(tokens_, tokens_.size() - 1, chain_, cache_);
}

std::optional<PrefixMatch> Sequence::MatchUnlessAwaiting() {
  if (prefix_ == nullptr) return PrefixMatch();
  if (awaited_from_.has_value() && prefix_->ComputedBy({.num_tokens = *awaited_from_}, chain_)) return std::nullopt;
  PrefixMatch match = MatchWithRoom();
  awaited_from_.reset();
  if (match.num_tokens < num_spilled()) return PrefixMatch();
  if (!prefix_->ComputedBy(match, chain_)) return match;
  awaited_from_ = match.num_tokens;
  return std::nullopt;
}

void Sequence::Begin() {
  if (prefix_ == nullptr) {
    stats_.prompt_tokens_first_time = stats_.prompt_tokens;
    return;
  }
  MakeChain();
  const PrefixMatch match = prefix_->Acquire(tokens_, tokens_.size() - 1, chain_, cache_);
  Audit(match);
  prefix_->BeginCompute(match, chain_, id());
}

void Sequence::Audit(const PrefixMatch& match) {
  PrefixAudit audit = prefix_->Explain(tokens_, match, chain_);
  stats_.prompt_tokens_reused = stats_.prompt_tokens_found = match.num_tokens;
  stats_.prompt_tokens_first_time = audit.first_time;
  stats_.prompt_tokens_evicted = audit.evicted;
  stats_.prompt_tokens_diverged = audit.diverged;
  stats_.prompt_tokens_last = audit.last_token;
  if (audit.divergence.has_value()) {
    PromptDivergence& found = *audit.divergence;
    const size_t end = std::min<size_t>(tokens_.size(), found.block_begin + prefix_->block_size());
    found.prompt.assign(tokens_.begin() + static_cast<std::ptrdiff_t>(found.block_begin),
                        tokens_.begin() + static_cast<std::ptrdiff_t>(end));
  }
  stream_->SetDivergence(std::move(audit.divergence));
}

void Sequence::ForkPrompt(const Sequence& other) {
  // Admission saw to the room.
  KVERN_CHECK((prefix_ != nullptr ? prefix_->Fork(other.cache_, cache_) : cache_.Fork(other.cache_)).ok());
  JoinPrompt(other);
}

void Sequence::TakeOverPrompt(Sequence& other) {
  cache_.TakeOver(other.cache_);
  JoinPrompt(other);
  if (prefix_ == nullptr) {
    stats_.prompt_tokens_first_time = stats_.prompt_tokens - stats_.prompt_tokens_found;
    return;
  }
  const PrefixMatch match = {.num_tokens = cache_.num_tokens()};
  Audit(match);
  prefix_->EndCompute(other.id());
  prefix_->BeginCompute(match, chain_, id());
}

// Its prompt began when that of `other` did, whose tokens it has.
void Sequence::JoinPrompt(const Sequence& other) {
  stats_.prompt_tokens_reused = stats_.prompt_tokens_found = cache_.num_tokens();
  chain_ = other.chain_;
  has_chain_ = other.has_chain_;
  first_step_ = other.first_step_;
  stats_.queue_us = other.stats_.queue_us;
}

void Sequence::Preempt() {
  ++stats_.num_preemptions;
  if (prefix_ != nullptr) prefix_->EndCompute(id());
  num_lost_ += num_computed();  // Until it is found again.
  if (spill_ != nullptr) (void)spill_->CopyOut(cache_);
  GiveBlocksBack();
}

void Sequence::Resume() {
  const uint64_t num_cached = prefix_ != nullptr ? MatchWithRoom().num_tokens : 0;
  if (num_spilled() > num_cached) {
    if (prefix_ != nullptr) prefix_->MakeRoom(spill_->num_blocks());
    const bool is_back = spill_->MoveIn(cache_).ok();  // Else it goes on with what is cached.
    if (is_back && prefix_ != nullptr) prefix_->PublishRestored(tokens_, chain_, cache_);
  } else if (spill_ != nullptr) {
    spill_->Drop();
  }
  if (prefix_ != nullptr) {
    if (cache_.num_tokens() == 0) prefix_->Reacquire(tokens_, tokens_.size() - 1, chain_, cache_);
    CountFound(cache_.num_tokens());
    prefix_->BeginCompute({.num_tokens = cache_.num_tokens()}, chain_, id());
  }
  num_lost_ -= std::min(num_lost_, cache_.num_tokens());
}

// Others have computed more of the prompt, up to `num_tokens`, while this sequence was preempted: what it would have
// computed is now found.
void Sequence::CountFound(uint64_t num_tokens) {
  const uint64_t begin = stats_.prompt_tokens_found + stats_.prompt_tokens_computed;
  if (is_prefilled_ || num_tokens <= begin) return;
  // The tokens of a prompt that were evicted come before those that never were there.
  uint64_t& rest =
      stats_.prompt_tokens_first_time > 0 ? stats_.prompt_tokens_first_time : stats_.prompt_tokens_diverged;
  const uint64_t of_rest = num_tokens - std::clamp(stats_.prompt_tokens - rest, begin, num_tokens);
  rest -= of_rest;
  stats_.prompt_tokens_evicted -= num_tokens - begin - of_rest;
  stats_.prompt_tokens_reused = stats_.prompt_tokens_found += num_tokens - begin;
}

void Sequence::GiveBlocksBack() {
  if (prefix_ != nullptr && cache_.num_tokens() > 0) return prefix_->Finish(tokens_, chain_, cache_);
  cache_.Release();
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
  prefix_ != nullptr ? prefix_->Commit(tokens_, count, chain_, cache_) : cache_.Commit(count);
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
  if (prefix_ != nullptr) prefix_->EndCompute(id());
  GiveBlocksBack();
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
