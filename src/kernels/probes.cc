#include "kernels/probes.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <vector>

#include "platform/cpu_features.h"

namespace kvern {
namespace {

#if defined(__x86_64__)

// Twelve independent chains: more than the latency of any unit needs, and they fit ymm0-15 beside two operands.
#define KVERN_TIMES_12(i) i(0) i(1) i(2) i(3) i(4) i(5) i(6) i(7) i(8) i(9) i(10) i(11)
#define KVERN_CLEAR(n) "vpxor %%xmm" #n ", %%xmm" #n ", %%xmm" #n "\n"
#define KVERN_DOT_ZMM(n) "vpdpbusd %%zmm14, %%zmm15, %%zmm" #n "\n"
#define KVERN_DOT_YMM(n) "%{vex%} vpdpbusd %%ymm14, %%ymm15, %%ymm" #n "\n"
#define KVERN_MADDUBS_YMM(n) "vpmaddubsw %%ymm14, %%ymm15, %%ymm" #n "\n"
#define KVERN_FMA_ZMM(n) "vfmadd231ps %%zmm14, %%zmm15, %%zmm" #n "\n"
#define KVERN_FMA_YMM(n) "vfmadd231ps %%ymm14, %%ymm15, %%ymm" #n "\n"
#define KVERN_CONVERT_ZMM(n) "vcvtph2ps %%ymm14, %%zmm" #n "\n"
#define KVERN_CONVERT_YMM(n) "vcvtph2ps %%xmm14, %%ymm" #n "\n"
#define KVERN_NOP(n) "nop\n"

// Runs 24 times `instruction` per iteration.
#define KVERN_PROBE_LOOP(name, instruction)                                                                           \
  void name(uint64_t iterations) {                                                                                    \
    asm volatile(KVERN_TIMES_12(KVERN_CLEAR) KVERN_CLEAR(14) KVERN_CLEAR(15) "1:\n" KVERN_TIMES_12(instruction)     \
                     KVERN_TIMES_12(instruction) "dec %0\n"                                                         \
                                                 "jnz 1b\n"                                                         \
                                                 "vzeroupper\n"                                                     \
                 : "+r"(iterations)                                                                                 \
                 :                                                                                                  \
                 : "cc", "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10",   \
                   "xmm11", "xmm14", "xmm15"); \
  }

KVERN_PROBE_LOOP(DotZmm, KVERN_DOT_ZMM)
KVERN_PROBE_LOOP(DotYmm, KVERN_DOT_YMM)
KVERN_PROBE_LOOP(MaddubsYmm, KVERN_MADDUBS_YMM)
KVERN_PROBE_LOOP(FmaZmm, KVERN_FMA_ZMM)
KVERN_PROBE_LOOP(FmaYmm, KVERN_FMA_YMM)
KVERN_PROBE_LOOP(ConvertZmm, KVERN_CONVERT_ZMM)
KVERN_PROBE_LOOP(ConvertYmm, KVERN_CONVERT_YMM)
KVERN_PROBE_LOOP(Nops, KVERN_NOP)

constexpr double kInstructions = 24;

// A loop and the operations of one of its instructions.
struct Loop {
  void (*run)(uint64_t iterations) = nullptr;
  double operations = 0;
};

Loop BestInt8Dot() {
  const CpuFeatures& cpu = GetCpuFeatures();
  if (cpu.has_avx512_vnni) return {DotZmm, 128};
  if (cpu.has_avx_vnni) return {DotYmm, 64};
  if (cpu.has_avx2) return {MaddubsYmm, 64};
  return {};
}

Loop WidestFma() {
  const CpuFeatures& cpu = GetCpuFeatures();
  if (cpu.has_avx512) return {FmaZmm, 32};
  if (cpu.has_avx2) return {FmaYmm, 16};
  return {};
}

Loop WidestConversion() {
  const CpuFeatures& cpu = GetCpuFeatures();
  if (cpu.has_avx512) return {ConvertZmm, 16};
  if (cpu.has_avx2) return {ConvertYmm, 8};
  return {};
}

Loop NopLoop() { return GetCpuFeatures().has_avx2 ? Loop{Nops, 1} : Loop{}; }

// Four loads at a time: 256 bytes, or 128 on ymm.
void ReadZmm(const uint8_t* p, size_t num_bytes) {
  for (const uint8_t* end = p + num_bytes; p < end; p += 256) {
    asm volatile(
        "vmovups (%0), %%zmm0\n"
        "vmovups 64(%0), %%zmm1\n"
        "vmovups 128(%0), %%zmm2\n"
        "vmovups 192(%0), %%zmm3\n"
        :
        : "r"(p)
        : "xmm0", "xmm1", "xmm2", "xmm3", "memory");
  }
  asm volatile("vzeroupper\n");
}
void ReadYmm(const uint8_t* p, size_t num_bytes) {
  for (const uint8_t* end = p + num_bytes; p < end; p += 128) {
    asm volatile(
        "vmovups (%0), %%ymm0\n"
        "vmovups 32(%0), %%ymm1\n"
        "vmovups 64(%0), %%ymm2\n"
        "vmovups 96(%0), %%ymm3\n"
        :
        : "r"(p)
        : "xmm0", "xmm1", "xmm2", "xmm3", "memory");
  }
  asm volatile("vzeroupper\n");
}

double Run(const Loop& loop, uint32_t iterations) {
  if (loop.run == nullptr || iterations == 0) return 0;
  loop.run(iterations);
  return kInstructions * loop.operations * iterations;
}

#endif

double SecondsSince(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace

#if defined(__x86_64__)

double RunInt8DotProbe(uint32_t iterations) { return Run(BestInt8Dot(), iterations); }
double RunF32FmaProbe(uint32_t iterations) { return Run(WidestFma(), iterations); }
double RunF16ConversionProbe(uint32_t iterations) { return Run(WidestConversion(), iterations); }
double RunNopProbe(uint32_t iterations) { return Run(NopLoop(), iterations); }
void RunReadProbe(std::span<const uint8_t> bytes) {
  const CpuFeatures& cpu = GetCpuFeatures();
  if (cpu.has_avx512) {
    ReadZmm(bytes.data(), bytes.size() / 256 * 256);
  } else if (cpu.has_avx2) {
    ReadYmm(bytes.data(), bytes.size() / 128 * 128);
  }
}

#else

double RunInt8DotProbe(uint32_t) { return 0; }
double RunF32FmaProbe(uint32_t) { return 0; }
double RunF16ConversionProbe(uint32_t) { return 0; }
double RunNopProbe(uint32_t) { return 0; }
void RunReadProbe(std::span<const uint8_t>) {}

#endif

ProbeResult ProbeMachine(ThreadPool& pool, MemoryAllocator& allocator, size_t read_bytes) {
  ProbeResult result;
  if (RunNopProbe(1) == 0) return result;

  struct Rates {
    double int8 = 0, f32 = 0, f16 = 0, nops = 0;
  };
  std::vector<Rates> rates(pool.num_threads());
  const auto rate = [](double (*probe)(uint32_t), uint32_t iterations) {
    probe(iterations / 4);  // Until the clock has settled.
    const auto start = std::chrono::steady_clock::now();
    const double operations = probe(iterations);
    return operations / SecondsSince(start);
  };
  pool.Run([&](Worker& worker) {
    Rates& own = rates[worker.index()];
    worker.Barrier();
    own.nops = rate(RunNopProbe, 1000000);
    worker.Barrier();
    own.int8 = rate(RunInt8DotProbe, 2500000);
    worker.Barrier();
    own.f32 = rate(RunF32FmaProbe, 2500000);
    worker.Barrier();
    own.f16 = rate(RunF16ConversionProbe, 2500000);
  });
  result.nops_per_ns = rates[0].nops * 1e-9;
  for (const Rates& own : rates) {
    result.int8_dot_tops += own.int8 * 1e-12;
    result.f32_fma_tflops += own.f32 * 1e-12;
    result.f16_to_f32_tera += own.f16 * 1e-12;
    result.nops_per_ns = std::min(result.nops_per_ns, own.nops * 1e-9);
  }

  auto buffer = allocator.Allocate(read_bytes);
  if (!buffer.ok()) return result;
  const std::span<uint8_t> bytes = buffer.value().bytes();
  // Written first: pages that were never written may all be one page of zeros.
  pool.Run([&](Worker& worker) {
    const Worker::Range part = worker.Part(bytes.size(), 4096);
    std::memset(bytes.data() + part.begin, 1, part.end - part.begin);
  });
  std::vector<double> speeds(pool.num_threads());
  pool.Run([&](Worker& worker) {
    const Worker::Range part = worker.Part(bytes.size(), 4096);
    worker.Barrier();
    const auto start = std::chrono::steady_clock::now();
    RunReadProbe(bytes.subspan(part.begin, part.end - part.begin));
    worker.Barrier();
    speeds[worker.index()] = SecondsSince(start);
  });
  result.read_gb_per_s = static_cast<double>(bytes.size()) * 1e-9 / *std::max_element(speeds.begin(), speeds.end());
  const auto start = std::chrono::steady_clock::now();
  RunReadProbe(bytes);
  result.read_gb_per_s_one = static_cast<double>(bytes.size()) * 1e-9 / SecondsSince(start);
  return result;
}

}  // namespace kvern
