#include "engine/scheduler.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace kvern {

Scheduler::Scheduler(const BlockLayout& layout, uint64_t total_blocks, uint32_t max_sequences, uint32_t prefill_chunk)
    : layout_(layout), total_blocks_(total_blocks), max_sequences_(max_sequences), prefill_chunk_(prefill_chunk) {}

void Scheduler::Admit() {
  while (!waiting_.empty() && AdmitFront()) waiting_.pop_front();
  KVERN_CHECK(waiting_.empty() || num_reserved_blocks_ > 0);  // A job that fits alone is never stuck.
}

bool Scheduler::AdmitFront() {
  if (auto* score = std::get_if<std::shared_ptr<ScoreJob>>(&waiting_.front())) {
    const uint64_t num_blocks = layout_.BlocksFor((*score)->max_slots());
    if (num_reserved_blocks_ + num_blocks > total_blocks_) return false;
    num_reserved_blocks_ += num_blocks;
    scores_.push_back(std::move(*score));
    return true;
  }
  auto& sequence = std::get<std::unique_ptr<Sequence>>(waiting_.front());
  const uint64_t num_blocks = layout_.BlocksFor(sequence->max_slots());
  if (running_.size() == max_sequences_ || num_reserved_blocks_ + num_blocks > total_blocks_) return false;
  num_reserved_blocks_ += num_blocks;
  running_.push_back({std::move(sequence), num_blocks, next_turn_++});
  return true;
}

std::vector<PlannedRows> Scheduler::Plan() {
  std::vector<PlannedRows> plan;
  std::vector<Running*> prefills;
  for (Running& running : running_) {
    if (running.sequence->num_pending() == 1) {
      plan.push_back({running.sequence.get(), 1});
      running.turn = next_turn_++;
    } else {
      prefills.push_back(&running);
    }
  }
  std::sort(prefills.begin(), prefills.end(), [](const Running* a, const Running* b) { return a->turn < b->turn; });
  uint64_t room = prefill_chunk_;
  for (Running* running : prefills) {
    if (room == 0) break;
    const uint64_t num_pending = running->sequence->num_pending();
    const uint64_t num_rows = std::min(room, num_pending);
    plan.push_back({running->sequence.get(), static_cast<uint32_t>(num_rows)});
    room -= num_rows;
    if (num_rows == num_pending) running->turn = next_turn_++;
  }
  return plan;
}

std::vector<std::unique_ptr<Sequence>> Scheduler::TakeFinished() {
  std::vector<std::unique_ptr<Sequence>> finished;
  std::erase_if(running_, [&](Running& running) {
    if (!running.sequence->is_finished()) return false;
    num_reserved_blocks_ -= running.num_blocks;
    finished.push_back(std::move(running.sequence));
    return true;
  });
  std::erase_if(waiting_, [&](Job& job) {
    auto* sequence = std::get_if<std::unique_ptr<Sequence>>(&job);
    if (sequence == nullptr || !(*sequence)->is_finished()) return false;
    finished.push_back(std::move(*sequence));
    return true;
  });
  return finished;
}

std::shared_ptr<ScoreJob> Scheduler::TakeFrontScore() {
  KVERN_CHECK(!scores_.empty());
  std::shared_ptr<ScoreJob> score = std::move(scores_.front());
  scores_.pop_front();
  num_reserved_blocks_ -= layout_.BlocksFor(score->max_slots());
  return score;
}

std::vector<std::shared_ptr<ScoreJob>> Scheduler::TakeAllScores() {
  std::vector<std::shared_ptr<ScoreJob>> all;
  while (!scores_.empty()) all.push_back(TakeFrontScore());
  std::erase_if(waiting_, [&](Job& job) {
    auto* score = std::get_if<std::shared_ptr<ScoreJob>>(&job);
    if (score == nullptr) return false;
    all.push_back(std::move(*score));
    return true;
  });
  return all;
}

}  // namespace kvern
