// TokenStream: the answer to one request, token by token.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "kvern/stats.h"
#include "kvern/status.h"
#include "kvern/tokenizer.h"

namespace kvern {

// The natural logarithm of the probability that the model gives a token, before penalties, temperature and the like.
struct TokenLogprob {
  TokenId token = -1;
  float logprob = 0;
};

struct TokenEvent {
  TokenId token = -1;  // -1: no new token, only text that was held back.
  std::string text;    // Whole characters that are certain now; text that may begin a stop string waits.
  // Where the request wants them: of `token`, and of the most likely ones, best first.
  float logprob = 0;
  std::vector<TokenLogprob> top_logprobs = {};
};

enum class FinishReason : uint8_t {
  kNone,       // Still running, or failed: see status().
  kEndOfText,  // The model ended its answer.
  kLength,     // max_tokens, or the context is full.
  kStopString,
  kCancelled,
};
std::string_view FinishReasonName(FinishReason reason);

// One reader thread; the engine writes from its own. Dropping a stream cancels its request. Must not outlive its
// Engine.
class TokenStream {
 public:
  struct State;
  explicit TokenStream(std::shared_ptr<State> state);  // Shared: reader and engine thread end in any order.
  TokenStream(TokenStream&&) noexcept;
  TokenStream& operator=(TokenStream&&) noexcept;
  ~TokenStream();

  // The next event; waits for it. nullopt at the end, after which status() and finish_reason() are final.
  std::optional<TokenEvent> Next();
  // The next event where one is there already; does not wait.
  std::optional<TokenEvent> Poll();
  // Whether the stream has finished and all its events were taken: what Next() says with nullopt.
  bool is_done() const;
  // Calls `wake` after each event and at the end, from now on, and at once where there is something to take: for
  // readers that have no thread to wait in Next(). It runs on the engine thread under the lock of the stream: it must
  // be quick and must not call the stream. No call comes after the stream is destroyed or `wake` replaced.
  void OnReady(std::function<void()> wake);
  // Where the prompt left what was cached, once the first event has come; nullopt where it did not.
  std::optional<PromptDivergence> divergence() const;
  // Asks the engine to stop at the next step. Next() then drains what was made so far. Any thread.
  void Cancel();

  Status status() const;
  FinishReason finish_reason() const;
  // As they were when the event that Next returned last was made, however far the engine has come since; final, and
  // with the bytes held, after the end. Zeros before the first event.
  RequestStats stats() const;

 private:
  void Abandon();

  std::shared_ptr<State> state_;
};

}  // namespace kvern
