// Scheduler: decides which jobs run and which rows the next step computes. Engine thread only.
//
// Admission. Of the jobs that wait, the next one is the first of the tenant with the fewest running sequences, and none
// overtakes it for want of room. A sequence begins with what the cache holds of its prompt; where another one is
// computing more of it right now, it waits for that and others go first. A job is admitted when the blocks of its
// longest course fit beside those of all that run, so nothing that runs ever waits for memory.
//
// Where the cache is overcommitted, a sequence that is alone in its group is admitted when the blocks of its prompt
// fit, and is promised more as it grows. Where that does not fit, the one that was admitted last and can be preempted
// gives its blocks up and goes on when there is room again, before anything new is admitted. The oldest always goes on,
// so all end.
//
// The sequences of a group have one prompt. The first of them computes it while the others hold no blocks and wait;
// then they fork its table. Where the first one ends before that, the next takes over what it has computed.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "engine/score_job.h"
#include "engine/sequence.h"
#include "kvcache/admission.h"
#include "kvcache/prefix_pins.h"

namespace kvern {

using SequenceGroup = std::vector<std::unique_ptr<Sequence>>;  // At least one; all have the same prompt.
using Job = std::variant<SequenceGroup, std::shared_ptr<ScoreJob>>;

// Pending tokens of one sequence that the next step computes.
struct PlannedRows {
  Sequence* sequence;
  uint32_t num_rows;
  std::span<const std::unique_ptr<Sequence>> followers;  // Those that fork the table after this step.
};

// Blocks of the longest course of `num_sequences` sequences of one prompt, which they share.
BlockCounts GroupBlocksFor(const KvCacheSpec& spec, uint64_t num_sequences, uint64_t prompt_tokens, uint64_t max_slots);

class Scheduler {
 public:
  // Every job must fit the pools of `cache` alone. `cache` and `prefix` (may be null) must outlive the scheduler.
  Scheduler(KvCache& cache, PrefixCache* prefix, uint64_t pin_limit_bytes, uint32_t max_sequences, bool overcommits);

  void Enqueue(Job job) { waiting_.push_back(std::move(job)); }
  // Admits jobs while there is room, preempted ones first.
  void Admit();
  // Sees to it that the next step of every running sequence has room; preempts where it must.
  void MakeRoom();

  // The rows of the next step: the one pending token of each decoding sequence, those of a group next to each other;
  // then up to `max_prefill_rows` pending tokens of the others, or up to `max_rows_beside_streams` where some decode.
  // Tenants take turns, and so do the prompts of each; one that has just come goes before those of the last step. So a
  // long prompt delays a short one by a step, and however many of them a tenant sends, no more than that the short one
  // of another. Empty when nothing runs.
  std::vector<PlannedRows> Plan(uint64_t max_prefill_rows, uint64_t max_rows_beside_streams);
  // The scoring job whose turn it is, or nullptr.
  ScoreJob* FrontScore() { return scores_.empty() ? nullptr : scores_.front().get(); }

  // Takes out the sequences that have finished, running or waiting, giving back their room. Their tables still hold
  // blocks.
  std::vector<std::unique_ptr<Sequence>> TakeFinished();
  // `sequence` has ended and its blocks are idle: they are kept as it asked, where there is room for that.
  void Pin(Sequence& sequence, uint64_t now_us);
  // Ends the pins whose time has come.
  void ExpirePins(uint64_t now_us);
  // Ends the pins of what was cleared from the cache.
  void EndForgottenPins();
  uint64_t pinned_bytes() const { return pins_.has_value() ? pins_->num_bytes() : 0; }
  uint64_t num_refused_pins() const { return num_refused_pins_; }
  // Takes the front scoring job out.
  std::shared_ptr<ScoreJob> TakeFrontScore();
  // Takes all of them out, the waiting ones too.
  std::vector<std::shared_ptr<ScoreJob>> TakeAllScores();

  // Calls fn(Sequence&) for every sequence, running ones first.
  template <typename Fn>
  void ForEachSequence(Fn fn) {
    for (Running& running : running_) {
      for (const auto& sequence : running.group) fn(*sequence);
    }
    for (Running& running : preempted_) {
      for (const auto& sequence : running.group) fn(*sequence);
    }
    for (Job& job : waiting_) {
      auto* group = std::get_if<SequenceGroup>(&job);
      if (group == nullptr) continue;
      for (const auto& sequence : *group) fn(*sequence);
    }
  }

  bool is_idle() const { return waiting_.empty() && running_.empty() && preempted_.empty() && scores_.empty(); }
  uint64_t num_running() const { return num_running_; }  // Sequences, preempted ones too.
  uint64_t num_preemptions() const { return num_preemptions_; }
  uint64_t num_waiting() const { return waiting_.size(); }

 private:
  struct Running {
    SequenceGroup group;
    uint64_t order;            // Of admission.
    uint64_t promised_tokens;  // That it has room for; 0: its longest course.
    uint64_t turn;             // Prefills of a tenant are served in ascending order.
  };

  // What runs, as admission sees it.
  Admission Counted() const;
  // Admits the next job; false where there is none, or no room for it.
  bool AdmitNext();
  // The job whose turn it is, with what it would begin with; end() where there is none.
  struct Next {
    std::deque<Job>::iterator job;
    PrefixMatch match = {};
  };
  Next NextWaiting();
  bool ResumeFront();
  // Promises running_[i] the blocks of all its tokens; false where that preempted it.
  bool Extend(size_t i);
  // The last of the running ones that can be preempted; there must be one.
  size_t LastPreemptible() const;
  void Preempt(size_t i);
  // Tokens to promise blocks for: all so far, and a block more of the answer.
  uint64_t TokensToPromise(const Sequence& sequence) const;
  // Takes the finished sequences out of a running group.
  void TakeFinishedOf(Running& running, std::vector<std::unique_ptr<Sequence>>& finished);

  KvCache& cache_;
  std::optional<PrefixPins> pins_;  // Where prefixes are kept.
  const uint32_t max_sequences_;
  const bool overcommits_;
  uint64_t next_turn_ = 1, last_step_turn_ = 0;  // Those served in the last step have a later turn than the latter.
  std::map<std::string, uint64_t, std::less<>> tenant_turns_;  // Of those served lately: ascending, too.
  std::deque<Job> waiting_;
  uint64_t next_order_ = 0;
  uint64_t num_preemptions_ = 0;
  uint64_t num_refused_pins_ = 0;
  std::vector<Running> running_;   // In the order of admission.
  std::deque<Running> preempted_;  // Likewise.
  uint64_t num_running_ = 0;       // Sequences of all of them.
  std::deque<std::shared_ptr<ScoreJob>> scores_;
};

}  // namespace kvern
