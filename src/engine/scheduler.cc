#include "engine/scheduler.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace kvern {
namespace {

// Whether the prompt of the group is still being computed for more than one.
bool HasFollowers(const SequenceGroup& group) { return group.size() > 1 && group[1]->num_computed() == 0; }

void MoveFinished(SequenceGroup& group, std::vector<std::unique_ptr<Sequence>>& finished) {
  std::erase_if(group, [&](std::unique_ptr<Sequence>& sequence) {
    if (!sequence->is_finished()) return false;
    finished.push_back(std::move(sequence));
    return true;
  });
}

}  // namespace

GroupBlocks GroupBlocksFor(const KvCacheSpec& spec, uint64_t num_sequences, uint64_t prompt_tokens,
                           uint64_t max_slots) {
  GroupBlocks blocks = {.shared = {}, .own = spec.MostBlocks(max_slots)};
  if (num_sequences == 1) return blocks;
  blocks.shared = spec.SharedBlocks(max_slots, prompt_tokens);
  for (size_t g = 0; g < blocks.own.size(); ++g) blocks.own[g] -= blocks.shared[g];
  return blocks;
}

Scheduler::Scheduler(const KvCacheSpec& spec, uint32_t max_sequences, uint32_t prefill_chunk, bool preempts)
    : spec_(spec),
      total_(spec.PoolBlocks()),
      max_sequences_(max_sequences),
      prefill_chunk_(prefill_chunk),
      preempts_(preempts && spec.placement->leases_on_demand()) {}

void Scheduler::Admit() {
  while (!preempted_.empty() && ResumeFront()) preempted_.pop_front();
  if (!preempted_.empty()) {
    KVERN_CHECK(promised_ != BlockCounts{});
    return;
  }
  while (!waiting_.empty() && AdmitFront()) waiting_.pop_front();
  KVERN_CHECK(waiting_.empty() || promised_ != BlockCounts{});  // A job that fits alone is never stuck.
}

bool Scheduler::Promise(const BlockCounts& blocks) {
  const BlockCounts sum = Sum(promised_, blocks);
  if (!FitsInto(sum, total_)) return false;
  promised_ = sum;
  return true;
}

void Scheduler::TakeBack(const BlockCounts& blocks) {
  for (size_t g = 0; g < promised_.size(); ++g) promised_[g] -= blocks[g];
}

bool Scheduler::AdmitFront() {
  if (auto* score = std::get_if<std::shared_ptr<ScoreJob>>(&waiting_.front())) {
    if (!Promise(spec_.MostBlocks((*score)->max_slots()))) return false;
    scores_.push_back(std::move(*score));
    return true;
  }
  auto& group = std::get<SequenceGroup>(waiting_.front());
  const Sequence& first = *group.front();
  const bool is_extended = preempts_ && group.size() == 1;
  const uint64_t promised_tokens = is_extended ? TokensToPromise(first) : 0;
  const GroupBlocks blocks =
      GroupBlocksFor(spec_, group.size(), first.prompt_tokens(), is_extended ? promised_tokens : first.max_slots());
  if (num_running_ + group.size() > max_sequences_ || !Promise(blocks.Total(group.size()))) return false;
  num_running_ += group.size();
  running_.push_back({std::move(group), blocks, next_order_++, promised_tokens, next_turn_++});
  return true;
}

uint64_t Scheduler::TokensToPromise(const Sequence& sequence) const {
  return std::min(sequence.max_slots(), sequence.num_tokens() + spec_.groups[0].layout.block_size());
}

bool Scheduler::ResumeFront() {
  Running& running = preempted_.front();
  Sequence& sequence = *running.group.front();
  const uint64_t promised_tokens = TokensToPromise(sequence);
  const BlockCounts blocks = spec_.MostBlocks(promised_tokens);
  if (!Promise(blocks)) return false;
  running.blocks.own = blocks;
  running.promised_tokens = promised_tokens;
  sequence.Resume();
  const auto place = std::ranges::upper_bound(running_, running.order, {}, &Running::order);
  running_.insert(place, std::move(running));
  return true;
}

void Scheduler::MakeRoom() {
  for (size_t i = 0; i < running_.size();) {
    if (running_[i].promised_tokens == 0 || Extend(i)) ++i;
  }
}

bool Scheduler::Extend(size_t i) {
  const Sequence& sequence = *running_[i].group.front();
  if (sequence.num_tokens() <= running_[i].promised_tokens) return true;
  const uint64_t promised_tokens = TokensToPromise(sequence);
  const BlockCounts blocks = spec_.MostBlocks(promised_tokens);
  BlockCounts more = blocks;
  for (size_t g = 0; g < more.size(); ++g) more[g] -= running_[i].blocks.own[g];
  while (!Promise(more)) {
    const size_t victim = LastPreemptible();
    Preempt(victim);
    if (victim <= i) return false;
  }
  running_[i].blocks.own = blocks;
  running_[i].promised_tokens = promised_tokens;
  return true;
}

size_t Scheduler::LastPreemptible() const {
  size_t i = running_.size();
  while (running_[--i].promised_tokens == 0) KVERN_CHECK(i > 0);
  return i;
}

void Scheduler::Preempt(size_t i) {
  Running& running = running_[i];
  running.group.front()->Preempt();
  TakeBack(running.blocks.own);
  running.blocks.own = {};
  ++num_preemptions_;
  const auto place = std::ranges::upper_bound(preempted_, running.order, {}, &Running::order);
  preempted_.insert(place, std::move(running));
  running_.erase(running_.begin() + static_cast<std::ptrdiff_t>(i));
}

std::vector<PlannedRows> Scheduler::Plan() {
  std::vector<PlannedRows> plan;
  std::vector<Running*> prefills;
  for (Running& running : running_) {
    if (running.group.front()->num_pending() > 1 || HasFollowers(running.group)) {
      prefills.push_back(&running);
      continue;
    }
    for (const auto& sequence : running.group) plan.push_back({sequence.get(), 1, {}});
    running.turn = next_turn_++;
  }
  std::sort(prefills.begin(), prefills.end(), [](const Running* a, const Running* b) { return a->turn < b->turn; });
  uint64_t room = prefill_chunk_;
  for (Running* running : prefills) {
    if (room == 0) break;
    Sequence* const sequence = running->group.front().get();
    const uint64_t num_pending = sequence->num_pending();
    const uint64_t num_rows = std::min(room, num_pending);
    plan.push_back({sequence, static_cast<uint32_t>(num_rows), {}});
    room -= num_rows;
    if (num_rows < num_pending) continue;
    plan.back().followers = std::span(running->group).subspan(1);
    running->turn = next_turn_++;
  }
  return plan;
}

std::vector<std::unique_ptr<Sequence>> Scheduler::TakeFinished() {
  std::vector<std::unique_ptr<Sequence>> finished;
  for (Running& running : running_) TakeFinishedOf(running, finished);
  for (Running& running : preempted_) TakeFinishedOf(running, finished);
  std::erase_if(running_, [](const Running& running) { return running.group.empty(); });
  std::erase_if(preempted_, [](const Running& running) { return running.group.empty(); });
  for (Job& job : waiting_) {
    if (auto* group = std::get_if<SequenceGroup>(&job)) MoveFinished(*group, finished);
  }
  std::erase_if(waiting_, [](const Job& job) {
    const auto* group = std::get_if<SequenceGroup>(&job);
    return group != nullptr && group->empty();
  });
  return finished;
}

void Scheduler::TakeFinishedOf(Running& running, std::vector<std::unique_ptr<Sequence>>& finished) {
  SequenceGroup& group = running.group;
  const bool has_followers = HasFollowers(group);
  const size_t num_before = group.size(), first_finished = finished.size();
  const bool is_first_finished = group.front()->is_finished();
  MoveFinished(group, finished);
  if (has_followers && is_first_finished && !group.empty()) group.front()->TakeOverPrompt(*finished[first_finished]);
  num_running_ -= num_before - group.size();
  TakeBack(Sum({}, running.blocks.own, num_before - group.size()));
  if (group.empty()) TakeBack(running.blocks.shared);
}

std::shared_ptr<ScoreJob> Scheduler::TakeFrontScore() {
  KVERN_CHECK(!scores_.empty());
  std::shared_ptr<ScoreJob> score = std::move(scores_.front());
  scores_.pop_front();
  TakeBack(spec_.MostBlocks(score->max_slots()));
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
