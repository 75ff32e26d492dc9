// Diagnostics: what the machine can do, to judge speeds by.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace kvern {

// Limits measured now, on this machine, with `num_threads` threads at once. 0 where there is no probe for the CPU.
struct MachineLimits {
  std::string cpu;  // Brand string.
  uint32_t num_threads = 0;
  double int8_tops = 0;      // Tera (multiply + add) operations per second of the best int8 dot product.
  double f32_tflops = 0;     // Tera operations per second of f32 fused multiply-add.
  double read_gb_per_s = 0;  // Reading memory beyond the caches.
  double nops_per_ns = 0;    // Issue rate of one core: falls by half while a neighbour shares the core.
};

// Takes about a third of a second.
MachineLimits ProbeMachineLimits(uint32_t num_threads);

// Names accepted by EngineOptions::isa on this CPU, slowest first.
std::vector<std::string> RunnableIsas();

// CPUs that this process may use.
uint32_t UsableCpuCount();

// Peak resident memory of this process in bytes; 0 where the system does not tell.
uint64_t PeakMemoryBytes();

}  // namespace kvern
