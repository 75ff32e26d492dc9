// Speed of the products beside the limits they are judged by (measure.h).
//   matmul_bench [--target NAME] [--threads N] [--samples N] [--only TEXT] [--json FILE]
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "base/thread_pool.h"
#include "bench/micro/bench_weights.h"
#include "bench/micro/measure.h"
#include "kernels/dispatch.h"
#include "kernels/probes.h"
#include "kernels/testing/random_weights.h"
#include "platform/affinity.h"
#include "platform/huge_pages.h"

namespace kvern {
namespace {

struct Case {
  DType dtype;
  ActivationForm form;
  uint32_t num_rows, num_outputs, num_inputs;
  bool is_from_memory;  // Judged by bandwidth, over about a gigabyte of weights.
};

void RunCase(const KernelTable& kernels, ThreadPool& pool, const Case& c, const BenchFlags& flags) {
  Case shape = c;
  if (c.is_from_memory) {
    const double panel_bytes = static_cast<double>(PackedMatrix::PackedBytes(c.dtype, 16, c.num_inputs));
    shape.num_outputs = static_cast<uint32_t>(1e9 / panel_bytes) * 16;
  }
  char label[128];
  std::snprintf(label, sizeof(label), "%s %s %s M=%u N=%u K=%u threads=%u%s", kernels.name,
                std::string(GetDTypeInfo(c.dtype).name).c_str(), c.form == ActivationForm::kInt8 ? "int8" : "f32",
                c.num_rows, shape.num_outputs, c.num_inputs, pool.num_threads(), c.is_from_memory ? " RAM" : "");
  if (!flags.only.empty() && std::strstr(label, flags.only.c_str()) == nullptr) return;

  const BenchWeights weights = MakeBenchWeights(c.dtype, shape.num_outputs, c.num_inputs);
  const std::vector<float> x = RandomActivations(static_cast<size_t>(c.num_rows) * c.num_inputs, 2);
  AlignedBuffer packed =
      HugePageAllocator().Allocate(kernels.activation_bytes(c.form, c.num_rows, c.num_inputs)).value();
  kernels.pack_activations(
      {c.form, x.data(), c.num_inputs, c.num_rows, c.num_inputs, 0, c.num_rows, 0, c.num_inputs, packed.data()});
  const uint32_t num_panels = weights.view.num_panels();
  // As the model's buffers: rows of a large power of two would share a few sets of the cache.
  const size_t out_stride = size_t{num_panels} * kPanelOutputs + 16;
  AlignedBuffer out = HugePageAllocator().Allocate(sizeof(float) * c.num_rows * out_stride).value();
  std::vector<AlignedBuffer> scratch;
  for (uint32_t i = 0; i < pool.num_threads(); ++i) {
    scratch.push_back(HugePageAllocator().Allocate(kernels.matmul_scratch_bytes()).value());
  }

  // Every worker walks its own part of the panels, some at a time.
  const uint32_t per_worker = num_panels / pool.num_threads();
  const double operations_per_panel = 32.0 * c.num_rows * c.num_inputs;
  const double panel_gb = static_cast<double>(weights.view.panel_bytes) * 1e-9;
  uint32_t at_once = c.is_from_memory ? per_worker / 24 : static_cast<uint32_t>(2e9 / operations_per_panel);
  at_once = std::clamp(at_once / 2 * 2, 2u, per_worker);
  struct Position {
    alignas(64) uint32_t work = 0;
    uint32_t probe = 0;
  };
  std::vector<Position> positions(pool.num_threads());
  const auto next_part = [&](uint32_t& position, uint32_t worker) {
    if (position + at_once > per_worker) position = 0;
    const uint32_t begin = worker * per_worker + position;
    position += at_once;
    return begin;
  };
  const auto work = [&](const Worker& in) {
    const uint32_t worker = in.index();
    const uint32_t begin = next_part(positions[worker].work, worker);
    kernels.matmul({weights.view, c.form, packed.data(), c.num_rows, out.as<float>(), out_stride, false, begin,
                    begin + at_once, scratch[worker].data()});
    return c.is_from_memory ? panel_gb * at_once : operations_per_panel * at_once * 1e-12;
  };
  const auto probe = [&](const Worker& in) {
    const uint32_t worker = in.index();
    if (!c.is_from_memory) {
      return (c.form == ActivationForm::kInt8 ? RunInt8DotProbe(60000) : RunF32FmaProbe(60000)) * 1e-12;
    }
    // Half a worker's part away from the work, so that neither finds the other's lines in a cache.
    if (positions[worker].probe == 0) positions[worker].probe = per_worker / 2;
    const uint32_t begin = next_part(positions[worker].probe, worker);
    RunReadProbe({weights.view.data + begin * weights.view.panel_bytes / 64 * 64, at_once * weights.view.panel_bytes});
    return panel_gb * at_once;
  };
  const Measurement m = Measure(pool, flags.samples, work, probe);
  ReportRow(flags, label, c.is_from_memory ? "GB/s" : "Top/s", m);
}

// Packing weights at load, in bytes of the file, and activations before a product, in values.
void RunPacking(const KernelTable& kernels, ThreadPool& pool, const BenchFlags& flags) {
  for (const DTypeInfo& info : AllDTypes()) {
    char label[128];
    std::snprintf(label, sizeof(label), "packing %s N=4096 K=2048 threads=%u", std::string(info.name).c_str(),
                  pool.num_threads());
    if (!flags.only.empty() && std::strstr(label, flags.only.c_str()) == nullptr) continue;
    const TestWeights weights(info.dtype, 4096, 2048, 1);
    PackedMatrix matrix = PackedMatrix::Allocate(weights.view, HugePageAllocator()).value();
    std::vector<double> rates;
    for (uint32_t i = 0; i < flags.samples; ++i) {
      std::vector<double> seconds(pool.num_threads());
      pool.Run([&](Worker& worker) {
        const Worker::Range part = worker.Part(matrix.view().num_panels());
        const double start = ThreadSeconds();
        const Status status =
            matrix.PackPanels(weights.view, static_cast<uint32_t>(part.begin), static_cast<uint32_t>(part.end));
        seconds[worker.index()] = ThreadSeconds() - start;
        if (!status.ok()) std::abort();
      });
      rates.push_back(static_cast<double>(weights.bytes.size()) * 1e-9 /
                      *std::max_element(seconds.begin(), seconds.end()));
    }
    std::printf("%-62s %8.3f GB/s\n", label, Median(rates));
  }
  for (const ActivationForm form : {ActivationForm::kInt8, ActivationForm::kF32}) {
    for (const uint32_t num_rows : {1u, 512u}) {
      char label[128];
      std::snprintf(label, sizeof(label), "packing activations %s %s M=%u K=2048", kernels.name,
                    form == ActivationForm::kInt8 ? "int8" : "f32", num_rows);
      if (!flags.only.empty() && std::strstr(label, flags.only.c_str()) == nullptr) continue;
      const std::vector<float> x = RandomActivations(size_t{num_rows} * 2048, 1);
      AlignedBuffer packed = HugePageAllocator().Allocate(kernels.activation_bytes(form, num_rows, 2048)).value();
      const uint32_t repeats = 2048 / num_rows;
      std::vector<double> rates;
      for (uint32_t i = 0; i < flags.samples; ++i) {
        const double start = ThreadSeconds();
        for (uint32_t j = 0; j < repeats; ++j) {
          kernels.pack_activations({form, x.data(), 2048, num_rows, 2048, 0, num_rows, 0, 2048, packed.data()});
        }
        rates.push_back(static_cast<double>(x.size()) * repeats * 1e-9 / (ThreadSeconds() - start));
      }
      std::printf("%-62s %8.3f G/s\n", label, Median(rates));
    }
  }
}

std::vector<Case> AllCases() {
  std::vector<Case> cases;
  constexpr auto kInt8 = ActivationForm::kInt8;
  constexpr auto kF32 = ActivationForm::kF32;
  // The shapes of SmolLM2-135M, then those of a wider model.
  for (const uint32_t m : {512u, 64u, 14u, 8u, 4u, 1u}) {
    cases.push_back({DType::kQ4_1, kInt8, m, 1536, 576, false});
    cases.push_back({DType::kQ4_1, kInt8, m, 576, 1536, false});
    cases.push_back({DType::kQ8_0, kInt8, m, 512, 576, false});  // The head comes in parts of 512 outputs.
  }
  for (const DType dtype : {DType::kQ4_0, DType::kQ4_1, DType::kQ5_0, DType::kQ5_1, DType::kQ8_0, DType::kQ4_K,
                            DType::kQ5_K, DType::kQ6_K}) {
    cases.push_back({dtype, kInt8, 512, 8192, 2048, false});
    for (const uint32_t m : {1u, 4u, 8u, 14u, 32u}) cases.push_back({dtype, kInt8, m, 512, 2048, false});
    cases.push_back({dtype, kInt8, 1, 0, 2048, true});
  }
  for (const DType dtype : {DType::kF32, DType::kF16, DType::kBF16, DType::kQ4_1, DType::kQ8_0, DType::kQ6_K}) {
    cases.push_back({dtype, kF32, 512, 2048, 2048, false});
    cases.push_back({dtype, kF32, 1, 0, 2048, true});
  }
  return cases;
}

int Main(int argc, char** argv) {
  const BenchFlags flags = ParseBenchFlags(argc, argv, [](const std::string&, const std::string&) {});
  return RunBench("matmul_bench", flags, [&](const KernelTable& kernels, ThreadPool& pool) {
    const ProbeResult limits = ProbeMachine(pool, HugePageAllocator(), size_t{1} << 30);
    std::printf(
        "limits, %u threads: int8 %.3f TOPS, f32 %.3f TFLOPS, f16 to f32 %.3f T/s, read %.1f GB/s (one thread %.1f), "
        "%.1f nops/ns\n",
        pool.num_threads(), limits.int8_dot_tops, limits.f32_fma_tflops, limits.f16_to_f32_tera, limits.read_gb_per_s,
        limits.read_gb_per_s_one, limits.nops_per_ns);
    RunPacking(kernels, pool, flags);
    for (const Case& c : AllCases()) RunCase(kernels, pool, c, flags);
  });
}

}  // namespace
}  // namespace kvern

int main(int argc, char** argv) { return kvern::Main(argc, argv); }
