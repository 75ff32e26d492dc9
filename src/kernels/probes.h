// What the machine can do at most, to judge the speed of kernels by: short loops without memory traffic, and one that
// does nothing but read. On a CPU without a probe everything is 0.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/aligned_buffer.h"
#include "base/thread_pool.h"

namespace kvern {

struct ProbeResult {
  double int8_dot_tops = 0;  // 1e12 multiplications and additions of the best int8 dot product per second, all threads.
  double f32_fma_tflops = 0;     // 1e12 operations of f32 FMA on the widest registers per second, all threads.
  double f16_to_f32_tera = 0;    // 1e12 conversions of f16 to f32 per second, all threads: what reads an f16 cache.
  double nops_per_ns = 0;        // Issue rate of the slowest thread; about half while a neighbour shares its core.
  double read_gb_per_s = 0;      // Reading memory, all threads.
  double read_gb_per_s_one = 0;  // The same on one thread.
};

// About 0.3 s with the default of 256 MiB, which is read from memory where the last cache is smaller than that. The
// memory comes from `allocator` (huge pages read faster).
ProbeResult ProbeMachine(ThreadPool& pool, MemoryAllocator& allocator = HeapAllocator(),
                         size_t read_bytes = size_t{256} << 20);

// One thread's share of a probe, for measuring it beside something else.
// Operations done (multiplications and additions count one each). About 60,000 iterations take a millisecond.
double RunInt8DotProbe(uint32_t iterations);
double RunF32FmaProbe(uint32_t iterations);
double RunF16ConversionProbe(uint32_t iterations);
double RunNopProbe(uint32_t iterations);
// Loads every cache line of `bytes`; the start is aligned to 64.
void RunReadProbe(std::span<const uint8_t> bytes);

}  // namespace kvern
