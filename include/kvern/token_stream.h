// TokenStream: the answer to one request, token by token.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "kvern/stats.h"
#include "kvern/status.h"
#include "kvern/tokenizer.h"

namespace kvern {

struct TokenEvent {
  TokenId token = -1;  // -1: no new token, only text that was held back.
  std::string text;    // Whole characters that are certain now; text that may begin a stop string waits.
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
  // Asks the engine to stop at the next step. Next() then drains what was made so far. Any thread.
  void Cancel();

  Status status() const;
  FinishReason finish_reason() const;
  // As they were when the event that Next returned last was made, however far the engine has come since; final, and
  // with the bytes held, after the end. Zeros before the first event.
  RequestStats stats() const;

 private:
  std::shared_ptr<State> state_;
};

}  // namespace kvern
