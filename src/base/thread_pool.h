// ThreadPool: a fixed set of workers for parallel regions inside one step. It is given its CPUs and knows no OS.
// Between regions the workers spin for a short while and then sleep, so an idle pool uses no CPU.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <thread>
#include <type_traits>
#include <vector>

namespace kvern {

// A borrowed callable: like std::function, without owning or allocating. Valid for the duration of the call.
template <typename Signature>
class FunctionRef;
template <typename R, typename... Args>
class FunctionRef<R(Args...)> {
 public:
  template <typename F, typename = std::enable_if_t<!std::is_same_v<std::decay_t<F>, FunctionRef>>>
  FunctionRef(F&& f)  // NOLINT: implicit by design
      : object_(const_cast<void*>(static_cast<const void*>(&f))), call_([](void* object, Args... args) -> R {
          return (*static_cast<std::remove_reference_t<F>*>(object))(std::forward<Args>(args)...);
        }) {}
  R operator()(Args... args) const { return call_(object_, std::forward<Args>(args)...); }

 private:
  void* object_;
  R (*call_)(void*, Args...);
};

// One worker's place in a running region.
class Worker {
 public:
  uint32_t index() const { return index_; }  // 0 .. count() - 1; 0 is the thread that called Run.
  uint32_t count() const { return count_; }

  // This worker's part [begin, end) of `num_items`, cut into units of `unit` items (the last may be short). The parts
  // of all workers are disjoint and cover everything; they depend on count() only.
  struct Range {
    uint64_t begin, end;
  };
  Range Part(uint64_t num_items, uint64_t unit = 1) const;

  // Waits until every worker of the region is here; writes before it are seen by all after it.
  void Barrier();

 private:
  friend class ThreadPool;
  Worker(uint32_t index, uint32_t count, void* state) : index_(index), count_(count), state_(state) {}
  uint32_t index_;
  uint32_t count_;
  void* state_;
};

class ThreadPool {
 public:
  // `num_threads` >= 1 workers, the calling thread being one of them: num_threads - 1 threads are started.
  // `on_start(i)` runs first on each started thread i (1 ..): the place to pin it to its CPU. Where the system refuses
  // to start more threads the pool goes on with fewer; num_threads() tells.
  explicit ThreadPool(uint32_t num_threads, std::function<void(uint32_t)> on_start = {});
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  uint32_t num_threads() const;

  // Runs `region` on every worker at once and returns when all are done. Not reentrant; one caller at a time. What a
  // region throws ends the process.
  void Run(FunctionRef<void(Worker&)> region);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace kvern
