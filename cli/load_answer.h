// What one request of a load came to: its times, its tokens, and why it failed if it did.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kvern/status.h"
#include "server/event_stream.h"
#include "server/http_message.h"
#include "server/json.h"

namespace kvern::cli {

enum class AnswerOutcome : uint8_t {
  kDone,
  kHungUp,  // As the plan asked.
  kCut,     // The run was interrupted.
  kFailed,
};

struct AnswerUsage {
  uint64_t prompt_tokens = 0;
  uint64_t cached_tokens = 0;  // Of them, as far as the server says.
  uint64_t completion_tokens = 0;
};
// Fields that are missing or no counts are 0.
AnswerUsage ReadUsage(const server::Json& usage);

// The message of an error as servers send it: {"error": {"message": ...}} or {"error": ...}; else the text itself, cut
// to a line.
std::string ReadErrorMessage(std::string_view body);

struct AnswerSample {
  AnswerOutcome outcome = AnswerOutcome::kFailed;
  double begin_ms = 0;                        // Since the run began: when the request was due.
  double latency_ms = 0;                      // To the end, whatever that was.
  std::optional<double> first_token_ms = {};  // To the first piece of text.
  std::vector<float> gaps_ms = {};            // From a piece of text to the next one.
  bool has_usage = false;
  AnswerUsage usage = {};
  std::string failure = {};  // "HTTP 429", "no connection", "cut short", "error in the stream", "no answer".
  std::string message = {};  // What the server or the system said about it.

  uint64_t num_pieces() const { return first_token_ms.has_value() ? gaps_ms.size() + 1 : 0; }
  // As the server counts them; where it does not, each piece of text is one.
  uint64_t answer_tokens() const { return has_usage ? usage.completion_tokens : num_pieces(); }
  // Mean time from token to token; nothing for fewer than two.
  std::optional<double> MsPerToken() const;
};

// Reads the reply to one request of /v1/completions or /v1/chat/completions, streamed or not. Has no clock: it is told
// the time, in milliseconds since the run began.
class AnswerReader {
 public:
  explicit AnswerReader(double begin_ms) { sample_.begin_ms = begin_ms; }

  void OnHead(const server::HttpResponse& head);
  void OnBody(std::string_view bytes, double now_ms);
  // kCancelled makes the outcome `when_cancelled`.
  void OnEnd(const Status& status, double now_ms, AnswerOutcome when_cancelled);

  const AnswerSample& sample() const { return sample_; }
  const std::string& text() const { return text_; }

 private:
  void OnEvent(const std::string& data, double now_ms);
  void OnText(const std::string& text, double now_ms);
  void OnWholeBody(double now_ms);
  void Fail(std::string failure, std::string_view message);

  AnswerSample sample_;
  unsigned status_ = 0;
  bool is_event_stream_ = false;
  bool is_finished_ = false;  // The server said why the answer ends.
  server::EventStreamReader events_;
  std::string body_;  // Of a reply that is no event stream.
  std::string text_;
  double last_text_ms_ = 0;
};

}  // namespace kvern::cli
