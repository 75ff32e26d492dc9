#include "base/thread_pool.h"

#include <algorithm>
#include <chrono>
#include <system_error>

#include "base/check.h"
#include "base/checked_math.h"

namespace kvern {
namespace {

// How long a thread polls before it sleeps: longer than what the engine does between two steps (sleeping there costs a
// tenth of decode speed, since a wake-up takes as long as two layers of a small model), far shorter than the gap
// between two requests.
constexpr std::chrono::microseconds kSpinTime{250};

// Waits until `value` is no longer `old`. The reads of the clock between two polls last tens of nanoseconds, which
// keeps a polling hyperthread from taking issue slots away from its sibling.
void AwaitChange(const std::atomic<uint32_t>& value, uint32_t old, std::chrono::microseconds spin_time) {
  if (value.load(std::memory_order_acquire) != old) return;
  if (spin_time.count() > 0) {
    const auto end = std::chrono::steady_clock::now() + spin_time;
    do {
      if (value.load(std::memory_order_acquire) != old) return;
    } while (std::chrono::steady_clock::now() < end);
  }
  value.wait(old, std::memory_order_acquire);
}

// A barrier for a fixed number of threads, usable any number of times: the last to arrive opens the next generation.
class GenerationBarrier {
 public:
  void Init(uint32_t count, std::chrono::microseconds spin_time) {
    count_ = count;
    spin_time_ = spin_time;
  }

  void ArriveAndWait() {
    // Read before arriving: the generation cannot move on without this thread.
    const uint32_t generation = generation_.load(std::memory_order_relaxed);
    if (num_arrived_.fetch_add(1, std::memory_order_acq_rel) + 1 < count_) {
      AwaitChange(generation_, generation, spin_time_);
      return;
    }
    num_arrived_.store(0, std::memory_order_relaxed);  // Published by the generation below.
    generation_.fetch_add(1);
    generation_.notify_all();
  }

 private:
  uint32_t count_ = 1;
  std::chrono::microseconds spin_time_{0};
  alignas(64) std::atomic<uint32_t> num_arrived_{0};
  alignas(64) std::atomic<uint32_t> generation_{0};
};

}  // namespace

// A region begins when `epoch` moves on and ends when `num_running` is back at 0. Started threads are either waiting
// for the epoch after the last one they saw, or inside the region of the current one.
struct ThreadPool::State {
  GenerationBarrier barrier;
  std::chrono::microseconds spin_time{0};
  const FunctionRef<void(Worker&)>* region = nullptr;  // Written before `epoch`, valid until `num_running` is 0.
  bool is_stopping = false;                            // Written before `epoch`.
  std::vector<std::thread> threads;
  alignas(64) std::atomic<uint32_t> epoch{0};
  alignas(64) std::atomic<uint32_t> num_running{0};

  uint32_t count() const { return static_cast<uint32_t>(threads.size()) + 1; }

  void NextEpoch() {
    epoch.fetch_add(1);
    epoch.notify_all();
  }

  // The body of started thread `index`. noexcept: a region that throws ends the process, it cannot be left half done.
  void Work(uint32_t index) noexcept {
    for (uint32_t seen = 0;; ++seen) {
      AwaitChange(epoch, seen, spin_time);
      if (is_stopping) return;
      Worker worker(index, count(), &barrier);
      (*region)(worker);
      if (num_running.fetch_sub(1) == 1) num_running.notify_one();
    }
  }
};

Worker::Range Worker::Part(uint64_t num_items, uint64_t unit) const {
  KVERN_DCHECK(unit > 0);
  const uint64_t num_units = num_items / unit + (num_items % unit != 0 ? 1 : 0);
  const uint64_t share = num_units / count_;
  const uint64_t num_larger = num_units % count_;  // The first workers take one unit more.
  const uint64_t first = index_ * share + std::min<uint64_t>(index_, num_larger);
  const uint64_t last = first + share + (index_ < num_larger ? 1 : 0);
  const auto item_at = [&](uint64_t u) { return u == num_units ? num_items : u * unit; };
  return {item_at(first), item_at(last)};
}

void Worker::Barrier() {
  if (count_ > 1) static_cast<GenerationBarrier*>(state_)->ArriveAndWait();
}

ThreadPool::ThreadPool(uint32_t num_threads, std::function<void(uint32_t)> on_start)
    : state_(std::make_unique<State>()) {
  KVERN_CHECK(num_threads >= 1);
  State* const state = state_.get();
  // More threads than CPUs: whoever polls takes the CPU from the one it waits for.
  const uint32_t num_cpus = std::thread::hardware_concurrency();
  if (num_cpus == 0 || num_threads <= num_cpus) state->spin_time = kSpinTime;

  // A started thread reads nothing but `epoch` and `spin_time` until the first region, so `threads` may grow meanwhile.
  state->threads.reserve(num_threads - 1);
  for (uint32_t i = 1; i < num_threads; ++i) {
    try {
      state->threads.emplace_back([state, i, on_start] {
        if (on_start) on_start(i);
        state->Work(i);
      });
    } catch (const std::system_error&) {
      break;  // The system has no more threads: go on with those that run.
    }
  }
  state->barrier.Init(state->count(), state->spin_time);
}

ThreadPool::~ThreadPool() {
  state_->is_stopping = true;
  state_->NextEpoch();
  for (std::thread& thread : state_->threads) thread.join();
}

uint32_t ThreadPool::num_threads() const { return state_->count(); }

void ThreadPool::Run(FunctionRef<void(Worker&)> region) {
  State& state = *state_;
  Worker worker(0, state.count(), &state.barrier);
  const auto run_here = [&]() noexcept { region(worker); };
  if (state.threads.empty()) return run_here();

  state.region = &region;
  state.num_running.store(state.count() - 1, std::memory_order_relaxed);  // Published by the epoch.
  state.NextEpoch();
  run_here();
  // Every decrement is a change, so this may look more than once.
  for (uint32_t left; (left = state.num_running.load(std::memory_order_acquire)) != 0;) {
    AwaitChange(state.num_running, left, state.spin_time);
  }
}

}  // namespace kvern
