// Scheduler: decides which jobs run and which rows the next step computes. Engine thread only.
//
// Jobs wait in the order in which they came and none overtakes another. A job is admitted when the blocks of its
// longest course fit beside those of all admitted jobs, so nothing that runs ever waits for memory.
//
// Where sequences can be preempted, one that is alone in its group is admitted when the blocks of its prompt fit, and is
// promised more as it grows. Where that does not fit, the one that was admitted last and can be preempted gives its
// blocks up and goes on when there is room again, before anything new is admitted. The oldest always goes on, so all end.
//
// The sequences of a group have one prompt. The first of them computes it while the others hold no blocks and wait;
// then they fork its table. Where the first one ends before that, the next takes over what it has computed.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <variant>
#include <vector>

#include "engine/score_job.h"
#include "engine/sequence.h"

namespace kvern {

using SequenceGroup = std::vector<std::unique_ptr<Sequence>>;  // At least one; all have the same prompt.
using Job = std::variant<SequenceGroup, std::shared_ptr<ScoreJob>>;

// Pending tokens of one sequence that the next step computes.
struct PlannedRows {
  Sequence* sequence;
  uint32_t num_rows;
  std::span<const std::unique_ptr<Sequence>> followers;  // Those that fork the table after this step.
};

// Blocks of the longest course of a group of sequences.
struct GroupBlocks {
  BlockCounts shared;  // Of the prompt, those that all of them read.
  BlockCounts own;     // Of each sequence besides those.
  BlockCounts Total(uint64_t num_sequences) const { return Sum(shared, own, num_sequences); }
};
GroupBlocks GroupBlocksFor(const KvCacheSpec& spec, uint64_t num_sequences, uint64_t prompt_tokens, uint64_t max_slots);

class Scheduler {
 public:
  // Every job must fit the pools of `spec` alone. `spec` must outlive the scheduler.
  // preempts: sequences have a place to give their blocks to.
  Scheduler(const KvCacheSpec& spec, uint32_t max_sequences, uint32_t prefill_chunk, bool preempts);

  void Enqueue(Job job) { waiting_.push_back(std::move(job)); }
  // Admits jobs from the front of the queue while there is room, preempted ones first.
  void Admit();
  // Sees to it that the next step of every running sequence has room; preempts where it must.
  void MakeRoom();

  // The rows of the next step: the one pending token of each decoding sequence, those of a group next to each other;
  // then up to prefill_chunk pending tokens of the others, who wait for each other in turn. Empty when nothing runs.
  std::vector<PlannedRows> Plan();
  // The scoring job whose turn it is, or nullptr.
  ScoreJob* FrontScore() { return scores_.empty() ? nullptr : scores_.front().get(); }

  // Takes out the sequences that have finished, running or waiting, giving back their room. Their tables still hold
  // blocks.
  std::vector<std::unique_ptr<Sequence>> TakeFinished();
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
    GroupBlocks blocks;
    uint64_t order;            // Of admission.
    uint64_t promised_tokens;  // That `blocks` hold; 0: the longest course.
    uint64_t turn;  // Prefills are served in ascending order; one that has had all its pending tokens goes to the end.
  };

  bool AdmitFront();
  bool ResumeFront();
  // Promises running_[i] the blocks of all its tokens; false where that preempted it.
  bool Extend(size_t i);
  // The last of the running ones that can be preempted; there must be one.
  size_t LastPreemptible() const;
  void Preempt(size_t i);
  // Tokens to promise blocks for: all so far, and a block more of the answer.
  uint64_t TokensToPromise(const Sequence& sequence) const;
  // Promises `blocks` where they fit beside what is promised.
  bool Promise(const BlockCounts& blocks);
  void TakeBack(const BlockCounts& blocks);
  // Takes the finished sequences out of a running group.
  void TakeFinishedOf(Running& running, std::vector<std::unique_ptr<Sequence>>& finished);

  const KvCacheSpec& spec_;
  const BlockCounts total_;
  const uint32_t max_sequences_;
  const uint32_t prefill_chunk_;
  BlockCounts promised_ = {};
  uint64_t next_turn_ = 0;
  std::deque<Job> waiting_;
  const bool preempts_;
  uint64_t next_order_ = 0;
  uint64_t num_preemptions_ = 0;
  std::vector<Running> running_;  // In the order of admission.
  std::deque<Running> preempted_;  // Likewise.
  uint64_t num_running_ = 0;      // Sequences of all of them.
  std::deque<std::shared_ptr<ScoreJob>> scores_;
};

}  // namespace kvern
