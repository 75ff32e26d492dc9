// Puts a load on a server: begins conversations, asks, and keeps what came of each request.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <semaphore>
#include <string>
#include <vector>

#include "cli/load_answer.h"
#include "cli/load_plan.h"
#include "cli/load_stats.h"
#include "cli/load_workload.h"
#include "server/http_client.h"

namespace kvern::cli {

// How to reach the model.
struct LoadAccess {
  std::vector<server::HttpHeader> headers;  // Of every request.
  std::string model;
};

// One run, once. Everything but Run lives on the I/O thread of the client, so nothing here needs a
// lock.
class LoadRun {
 public:
  // `plan` and `workload` must outlive the run.
  LoadRun(const LoadPlan& plan, const Workload& workload, LoadAccess access,
          std::unique_ptr<server::HttpClient> client);

  // To the end of the plan, or until `must_stop`, which is asked ten times a second: what is under way is hung up then.
  LoadOutcome Run(const std::function<bool()>& must_stop);

 private:
  class Sink;
  using Clock = server::HttpClient::Clock;

  double NowMs() const;
  Clock::time_point At(double ms) const;
  bool HasAskedAll() const { return plan_.num_requests > 0 && num_asked_ >= plan_.num_requests; }
  bool MayAsk() const;

  void Begin();
  // Open loop: lets the next conversation arrive when it is due.
  void ScheduleArrival();
  void Arrive(double due_ms);
  void BeginConversation(double due_ms);
  void Ask(std::shared_ptr<Conversation> conversation, double due_ms);
  void OnAnswer(const std::shared_ptr<Conversation>& conversation, const AnswerReader& answer);
  // The conversation is over: another takes its place.
  void Replace(bool pauses);
  void CheckEnd();
  std::optional<std::chrono::microseconds> HangUpTime(const Conversation& conversation) const;
  // Thousandths of the plan that are done, for the progress bar. Any thread.
  uint64_t Progress() const;

  const LoadPlan& plan_;
  const Workload& workload_;
  const LoadAccess access_;
  std::unique_ptr<server::HttpClient> owned_client_;
  server::HttpClient* const client_;  // The same: still called while Run destroys it.
  PoissonArrivals arrivals_;
  Clock::time_point start_;
  std::atomic<bool> is_stopped_ = false;
  std::atomic<uint64_t> num_ended_ = 0;
  std::binary_semaphore end_{0};

  // I/O thread, while there is one.
  bool has_ended_ = false;
  bool awaits_arrival_ = false;
  uint64_t next_conversation_ = 0;
  uint64_t num_asked_ = 0;
  uint64_t num_under_way_ = 0;      // Requests.
  uint64_t num_conversations_ = 0;  // That go on, pauses included.
  std::deque<double> waiting_;      // Arrivals beyond plan_.num_clients, or too late: when each was due.
  double done_latency_ms_ = 0;      // Sum over requests that are done,
  uint64_t num_done_ = 0;           // and their number.
  LoadOutcome outcome_;
};

}  // namespace kvern::cli
