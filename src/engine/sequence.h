// Sequence: what the engine runs for one request. Lives on the engine thread, but for its stream.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/logprobs.h"
#include "engine/sampler.h"
#include "engine/stop_checker.h"
#include "engine/token_stream_state.h"
#include "kvcache/prefix_cache.h"
#include "kvcache/sequence_cache.h"
#include "kvcache/sequence_spill.h"
#include "kvern/request.h"

namespace kvern {

// A sequence waits, runs and finishes. While it runs, its tokens without keys and values in the cache are pending: each
// step computes some of them, and the step that computes the last one gives the next token.
//   with the cache     all tokens of the prompt are pending first, then one token per step
//   without the cache  all tokens are pending again after every token
class Sequence {
 public:
  using Clock = std::chrono::steady_clock;

  // What all sequences of an engine share. Must outlive them.
  struct Context {
    KvCache& cache;
    PrefixCache* prefix;  // Null: sequences share nothing and leave nothing.
    BlockStore* store;    // For preempted sequences; may be null.
    const Tokenizer& tokenizer;
    const KernelTable& kernels;
    uint32_t context_tokens;  // >= the length of every prompt.
    bool is_cached;
  };

  // `request` must be valid, its prompt no longer than the context, its token ids inside the vocabulary.
  Sequence(const Context& context, Request request, std::shared_ptr<TokenStream::State> stream);

  // The most slots that a request fills: all tokens of its longest answer but the last, which no step reads.
  static uint64_t MaxSlots(const Request& request, uint32_t context_tokens);
  uint64_t max_slots() const { return max_slots_; }
  uint64_t prompt_tokens() const { return stats_.prompt_tokens; }

  SequenceCache& cache() { return cache_; }
  // Tokens with keys and values; 0 while it waits for its turn or for another one that computes its prompt.
  uint64_t num_computed() const { return cache_.num_tokens(); }
  uint64_t num_pending() const { return tokens_.size() - num_computed(); }
  // The first `count` pending tokens.
  std::span<const TokenId> Pending(uint64_t count) const { return std::span(tokens_).subspan(num_computed(), count); }
  // Whether the step that computes the last pending token must give its logits: not where the prompt only fills the
  // cache.
  bool needs_logits() const { return max_tokens_ > 0; }

  bool is_cancelled() const { return stream_->is_cancelled; }
  const std::string& tenant() const { return tenant_; }
  uint32_t keep_seconds() const { return keep_seconds_; }
  const RequestStats& stats() const { return stats_; }

  // What the cache holds of its tokens but the last; of nothing where nothing is shared. Valid until blocks move.
  PrefixMatch Match();
  // What Begin or Resume would take of that, if it came next. nullopt where another sequence is computing what comes
  // after it: waiting for that one costs less than computing it again.
  std::optional<PrefixMatch> MatchUnlessAwaiting();
  // It is admitted: its table begins with what the cache holds.
  void Begin();
  // `other` has the same prompt and has computed it: this sequence, which has none, goes on from there.
  void ForkPrompt(const Sequence& other);
  // `other` has the same prompt and ends before it is computed: this sequence, which has none, takes over what is.
  void TakeOverPrompt(Sequence& other);

  // Gives its blocks back. Their bytes go to the store, and stay in the cache as long as there is room for them.
  void Preempt();
  // Takes blocks again, for which there must be room, with their bytes. What was lost of these is computed again.
  void Resume();
  uint64_t num_tokens() const { return tokens_.size(); }  // Prompt and answer so far.

  // A step that computes pending tokens of this sequence begins.
  void OnStepBegin();
  // It has computed `count` of them and found the keys and values of `num_reused` tokens below them. Returns how many
  // it had computed before.
  uint64_t OnComputed(uint64_t count, uint64_t num_reused, uint64_t query_key_products);
  // All are computed; `logits` are those of the last one. Draws the next token. May run on any thread.
  Result<TokenId> DrawFrom(std::span<const float> logits);
  // What was drawn: emits the token and finishes the sequence where it ends.
  void OnDrawn(const Result<TokenId>& token);

  // Ends the sequence: text that was held back is emitted. The stream learns of it in Close.
  void Finish(FinishReason reason, Status status = Status::Ok());
  bool is_finished() const { return is_finished_; }
  // Gives the blocks back, which stay in the cache as idle ones; the last thing before CloseStream.
  void ReleaseBlocks();
  // Ends the stream. The sequence must have finished.
  void CloseStream();

 private:
  uint64_t id() const { return reinterpret_cast<uintptr_t>(this); }  // Among the living ones.
  void MakeChain();
  PrefixMatch MatchWithRoom();                                                           // As PrefixCache does.
  uint64_t num_spilled() const { return spill_ != nullptr ? spill_->num_tokens() : 0; }  // Tokens in the store.
  void GiveBlocksBack();
  void Audit(const PrefixMatch& match);
  void JoinPrompt(const Sequence& other);
  void CountFound(uint64_t num_tokens);
  void Accept(TokenId token);
  void Emit(TokenId token, std::string text);

  const bool is_cached_;
  const Tokenizer& tokenizer_;
  const bool ends_at_eos_;
  const uint64_t max_tokens_;  // Of the answer; the context is taken into account.
  const uint64_t max_slots_;
  std::shared_ptr<TokenStream::State> stream_;

  std::vector<TokenId> tokens_;  // Prompt and answer.
  SequenceCache cache_;
  PrefixCache* const prefix_;
  const std::string tenant_, salt_;
  const uint32_t keep_seconds_;
  KeyChain chain_;  // Made on the engine thread, when it is first asked for.
  bool has_chain_ = false;
  std::optional<uint64_t> awaited_from_;  // Tokens that the cache held when another was found to compute the next.
  std::unique_ptr<SequenceSpill> spill_;  // Null where there is no store.
  uint64_t num_lost_ = 0;                 // Tokens that a preemption lost and that are not computed again yet.
  Sampler sampler_;
  std::unique_ptr<LogprobReader> logprobs_;  // Null where the request does not want them.
  StreamDecoder decoder_;
  StopChecker stop_checker_;

  bool is_finished_ = false;
  FinishReason reason_ = FinishReason::kNone;
  Status status_;
  RequestStats stats_;
  Clock::time_point submitted_;
  std::optional<Clock::time_point> first_step_;
  Clock::time_point prefill_end_;  // Meaningful once is_prefilled_.
  bool is_prefilled_ = false;
};

}  // namespace kvern
