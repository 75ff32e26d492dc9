// TokenStream::State: what the reader of a stream and the engine thread share.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>

#include "kvern/token_stream.h"

namespace kvern {

// The engine adds events and then finishes; the reader takes them. At most one event per token of the context waits
// here, so a reader that never comes costs no more than that.
struct TokenStream::State {
  // Engine thread.
  void SetDivergence(std::optional<PromptDivergence> found);
  void Emit(TokenEvent event, const RequestStats& stats_so_far);
  void Finish(FinishReason finish_reason, Status finish_status, const RequestStats& stats_at_end);

  // Reader, with the lock held: the next event, where there is one.
  std::optional<TokenEvent> Take();

  std::atomic<bool> is_cancelled = false;  // Set by the reader, looked at before each step.

  struct Made {
    TokenEvent event;
    RequestStats stats;  // When it was made.
  };

  std::mutex mutex;
  std::condition_variable changed;
  std::function<void()> wake;  // Called with the lock held. Guarded by mutex, as are those below.
  std::deque<Made> events;
  bool is_finished = false;
  FinishReason reason = FinishReason::kNone;
  Status status;
  RequestStats final_stats;
  RequestStats read_stats;  // What the reader is shown: those of the event it took last.
  std::optional<PromptDivergence> divergence;
};

}  // namespace kvern
