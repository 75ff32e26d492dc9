#include "engine/scheduler.h"

#include <algorithm>
#include <limits>
#include <map>
#include <string_view>
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

BlockCounts GroupBlocksFor(const KvCacheSpec& spec, uint64_t num_sequences, uint64_t prompt_tokens,
                           uint64_t max_slots) {
  BlockCounts blocks = spec.MostBlocks(max_slots);
  if (num_sequences == 1) return blocks;
  BlockCounts own = blocks;
  const BlockCounts shared = spec.SharedBlocks(max_slots, prompt_tokens);
  for (size_t g = 0; g < own.size(); ++g) own[g] -= shared[g];
  return Sum(blocks, own, num_sequences - 1);
}

Scheduler::Scheduler(KvCache& cache, PrefixCache* prefix, uint64_t pin_limit_bytes, uint32_t max_sequences,
                     bool overcommits)
    : cache_(cache),
      max_sequences_(max_sequences),
      overcommits_(overcommits && cache.spec().placement->leases_on_demand()) {
  if (prefix != nullptr) pins_.emplace(cache, pin_limit_bytes);
}

Admission Scheduler::Counted() const {
  Admission admission(cache_, pins_.has_value() ? pins_->num_blocks() : BlockCounts{});
  for (const Running& running : running_) {
    const SequenceGroup& group = running.group;
    const Sequence& first = *group.front();
    const uint64_t max_slots = running.promised_tokens != 0 ? running.promised_tokens : first.max_slots();
    const bool has_followers = HasFollowers(group);
    admission.Count(group.front()->cache(), max_slots);
    for (size_t i = 1; i < group.size(); ++i) {
      has_followers ? admission.CountFork(first.prompt_tokens(), max_slots)
                    : admission.CountForked(group[i]->cache(), first.prompt_tokens(), max_slots);
    }
  }
  for (const auto& score : scores_) admission.Count(score->cache(), score->max_slots());
  return admission;
}

void Scheduler::Admit() {
  while (!preempted_.empty() && ResumeFront()) preempted_.pop_front();
  if (preempted_.empty()) {
    while (AdmitNext()) continue;
  }
  const auto is_stuck = [this] { return running_.empty() && scores_.empty() && !is_idle(); };
  if (is_stuck() && pins_.has_value() && pins_->num_pins() > 0) {
    pins_->Clear();  // They are a wish; whoever waits needs the room.
    return Admit();
  }
  KVERN_CHECK(!is_stuck());  // A job that fits alone is never stuck.
}

Scheduler::Next Scheduler::NextWaiting() {
  std::map<std::string_view, uint64_t> num_running;  // By tenant.
  for (const Running& running : running_) num_running[running.group.front()->tenant()] += running.group.size();
  Next next = {waiting_.end()};
  uint64_t fewest = std::numeric_limits<uint64_t>::max();
  for (auto job = waiting_.begin(); job != waiting_.end(); ++job) {
    const auto* group = std::get_if<SequenceGroup>(&*job);
    const auto found = num_running.find(group != nullptr ? group->front()->tenant() : std::string_view());
    const uint64_t count = found == num_running.end() ? 0 : found->second;
    if (count >= fewest) continue;
    std::optional<PrefixMatch> match = PrefixMatch();
    if (group != nullptr && num_running_ < max_sequences_) match = group->front()->MatchUnlessAwaiting();
    if (!match.has_value()) continue;
    next = {job, *std::move(match)};
    fewest = count;
  }
  return next;
}

bool Scheduler::AdmitNext() {
  const auto [next, match] = NextWaiting();
  if (next == waiting_.end()) return false;
  if (auto* score = std::get_if<std::shared_ptr<ScoreJob>>(&*next)) {
    if (!Counted().Fits(PrefixMatch(), (*score)->max_slots())) return false;
    scores_.push_back(std::move(*score));
    waiting_.erase(next);
    return true;
  }
  auto& group = std::get<SequenceGroup>(*next);
  Sequence& first = *group.front();
  const bool is_extended = overcommits_ && group.size() == 1;
  const uint64_t promised_tokens = is_extended ? TokensToPromise(first) : 0;
  if (num_running_ + group.size() > max_sequences_ ||
      !Counted().Fits(match, is_extended ? promised_tokens : first.max_slots(), group.size() - 1,
                      first.prompt_tokens())) {
    return false;
  }
  num_running_ += group.size();
  first.Begin();
  running_.push_back({std::move(group), next_order_++, promised_tokens, last_step_turn_});
  waiting_.erase(next);
  return true;
}

uint64_t Scheduler::TokensToPromise(const Sequence& sequence) const {
  return std::min(sequence.max_slots(), sequence.num_tokens() + cache_.spec().groups[0].layout.block_size());
}

bool Scheduler::ResumeFront() {
  Running& running = preempted_.front();
  Sequence& sequence = *running.group.front();
  const uint64_t promised_tokens = TokensToPromise(sequence);
  const std::optional<PrefixMatch> match = sequence.MatchUnlessAwaiting();
  if (!match.has_value() || !Counted().Fits(*match, promised_tokens)) return false;
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
  running_[i].promised_tokens = TokensToPromise(sequence);
  while (!Counted().AllFit()) {
    const size_t victim = LastPreemptible();
    Preempt(victim);
    if (victim <= i) return false;
  }
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
  ++num_preemptions_;
  const auto place = std::ranges::upper_bound(preempted_, running.order, {}, &Running::order);
  preempted_.insert(place, std::move(running));
  running_.erase(running_.begin() + static_cast<std::ptrdiff_t>(i));
}

std::vector<PlannedRows> Scheduler::Plan(uint64_t max_prefill_rows, uint64_t max_rows_beside_streams) {
  std::vector<PlannedRows> plan;
  std::vector<Running*> prefills;
  for (Running& running : running_) {
    if (running.group.front()->num_pending() > 1 || HasFollowers(running.group)) {
      prefills.push_back(&running);
      continue;
    }
    for (const auto& sequence : running.group) plan.push_back({sequence.get(), 1, {}});
  }
  if (prefills.empty()) tenant_turns_.clear();
  const auto turn_of = [this](const Running* running) {
    const auto served = tenant_turns_.find(running->group.front()->tenant());
    return std::pair(served == tenant_turns_.end() ? 0 : served->second, running->turn);
  };
  std::ranges::stable_sort(prefills, {}, turn_of);
  last_step_turn_ = next_turn_++;
  uint64_t room = plan.empty() ? max_prefill_rows : max_rows_beside_streams;
  for (Running* running : prefills) {
    if (room == 0) break;
    Sequence* const sequence = running->group.front().get();
    const uint64_t num_pending = sequence->num_pending();
    const uint64_t num_rows = std::min(room, num_pending);
    plan.push_back({sequence, static_cast<uint32_t>(num_rows), {}});
    room -= num_rows;
    // What the first one leaves over costs the others no turn.
    if (running == prefills.front()) running->turn = tenant_turns_[sequence->tenant()] = next_turn_++;
    if (num_rows == num_pending) plan.back().followers = std::span(running->group).subspan(1);
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
}

void Scheduler::Pin(Sequence& sequence, uint64_t now_us) {
  if (!pins_.has_value()) return;
  const PrefixMatch match = sequence.Match();
  const uint64_t expires_us = now_us + uint64_t{sequence.keep_seconds()} * 1'000'000;
  if (!Counted().FitsPin(match) || !pins_->Pin(match, expires_us).ok()) ++num_refused_pins_;
}

void Scheduler::ExpirePins(uint64_t now_us) {
  if (pins_.has_value()) pins_->Expire(now_us);
}

void Scheduler::EndForgottenPins() {
  if (pins_.has_value()) pins_->EndForgotten();
}

std::shared_ptr<ScoreJob> Scheduler::TakeFrontScore() {
  KVERN_CHECK(!scores_.empty());
  std::shared_ptr<ScoreJob> score = std::move(scores_.front());
  scores_.pop_front();
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
