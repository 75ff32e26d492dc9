// Time of a product against the number of rows, 1 to 65: batched decode must meet no cliff.
//   batch_bench [--target NAME] [--threads N] [--samples N] [--only TEXT]
// For each type: every M with its share of the int8 (or f32) peak, then the worst steps from M to M + 1:
//   t(M) / t(M + 1), goal <= 1.05: fewer rows never take longer
//   rate(M) / rate(M + 1), goal <= 1 / 0.9: more rows never make a row much dearer
// All M take turns, and the fastest of the samples counts: what a neighbour on the machine takes away comes on top.
#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

#include "bench/micro/bench_weights.h"
#include "bench/micro/measure.h"

namespace kvern {
namespace {

constexpr uint32_t kMaxRows = 65;

struct Case {
  DType dtype;
  ActivationForm form;
  uint32_t num_outputs, num_inputs;
};

void RunCase(const KernelTable& kernels, ThreadPool& pool, const Case& c, const BenchFlags& flags) {
  char label[128];
  std::snprintf(label, sizeof(label), "%s %s %s N=%u K=%u threads=%u", kernels.name,
                std::string(GetDTypeInfo(c.dtype).name).c_str(), c.form == ActivationForm::kInt8 ? "int8" : "f32",
                c.num_outputs, c.num_inputs, pool.num_threads());
  if (!flags.only.empty() && std::string(label).find(flags.only) == std::string::npos) return;

  const BenchWeights weights = MakeBenchWeights(c.dtype, c.num_outputs, c.num_inputs);
  const std::vector<float> x = RandomActivations(size_t{kMaxRows} * c.num_inputs, 2);
  std::vector<AlignedBuffer> packed;
  for (uint32_t m = 1; m <= kMaxRows; ++m) {
    packed.push_back(HugePageAllocator().Allocate(kernels.activation_bytes(c.form, m, c.num_inputs)).value());
    kernels.pack_activations(
        {c.form, x.data(), c.num_inputs, m, c.num_inputs, 0, m, 0, c.num_inputs, packed.back().data()});
  }
  const size_t out_stride = size_t{weights.view.num_panels()} * kPanelOutputs + 16;
  AlignedBuffer out = HugePageAllocator().Allocate(sizeof(float) * kMaxRows * out_stride).value();
  std::vector<AlignedBuffer> scratch;
  for (uint32_t i = 0; i < pool.num_threads(); ++i) {
    scratch.push_back(HugePageAllocator().Allocate(kernels.matmul_scratch_bytes()).value());
  }

  std::vector<double> seconds(kMaxRows + 1, 1e9);
  double peak = 0;  // Operations per second, all threads.
  const uint32_t repeats = static_cast<uint32_t>(1 + 2e8 / (2.0 * c.num_outputs * c.num_inputs * 8));
  pool.Run([&](Worker& worker) {
    const Worker::Range part = worker.Part(weights.view.num_panels(), 2);
    for (uint32_t sample = 0; sample < flags.samples; ++sample) {
      for (uint32_t m = 1; m <= kMaxRows; ++m) {
        worker.Barrier();
        const double start = WallSeconds();
        for (uint32_t i = 0; i < repeats; ++i) {
          kernels.matmul({weights.view, c.form, packed[m - 1].data(), m, out.as<float>(), out_stride, false,
                          static_cast<uint32_t>(part.begin), static_cast<uint32_t>(part.end),
                          scratch[worker.index()].data()});
        }
        worker.Barrier();
        if (worker.index() == 0) seconds[m] = std::min(seconds[m], (WallSeconds() - start) / repeats);
      }
      if (worker.index() == 0) {
        const double start = WallSeconds();
        const double operations = c.form == ActivationForm::kInt8 ? RunInt8DotProbe(60000) : RunF32FmaProbe(60000);
        peak = std::max(peak, operations / (WallSeconds() - start) * pool.num_threads());
      }
    }
  });

  std::printf("%s: share of the peak of %.2f Top/s by M\n", label, peak * 1e-12);
  uint32_t worst_time = 1, worst_rate = 1;
  const auto time_step = [&](uint32_t m) { return seconds[m] / seconds[m + 1]; };
  const auto rate_step = [&](uint32_t m) { return (m / seconds[m]) / ((m + 1) / seconds[m + 1]); };
  for (uint32_t m = 1; m < kMaxRows; ++m) {
    const double share = peak > 0 ? 2.0 * m * c.num_outputs * c.num_inputs / seconds[m] / peak : 0;
    std::printf("%s%2u %4.1f", m % 16 == 1 ? "  " : ", ", m, 100 * share);
    if (m % 16 == 0) std::printf("\n");
    if (time_step(m) > time_step(worst_time)) worst_time = m;
    if (rate_step(m) > rate_step(worst_rate)) worst_rate = m;
  }
  std::printf("  worst t(M) / t(M + 1): %.3f at M = %u; worst rate(M) / rate(M + 1): %.3f at M = %u\n",
              time_step(worst_time), worst_time, rate_step(worst_rate), worst_rate);
  std::fflush(stdout);
}

int Main(int argc, char** argv) {
  const BenchFlags flags = ParseBenchFlags(argc, argv, [](const std::string&, const std::string&) {});
  return RunBench("batch_bench", flags, [&](const KernelTable& kernels, ThreadPool& pool) {
    constexpr auto kInt8 = ActivationForm::kInt8;
    for (const DType dtype : {DType::kQ4_0, DType::kQ4_1, DType::kQ8_0, DType::kQ4_K, DType::kQ6_K}) {
      RunCase(kernels, pool, {dtype, kInt8, 2048, 2048}, flags);
    }
    RunCase(kernels, pool, {DType::kQ4_1, kInt8, 1536, 576}, flags);
    RunCase(kernels, pool, {DType::kF16, ActivationForm::kF32, 2048, 2048}, flags);
  });
}

}  // namespace
}  // namespace kvern

int main(int argc, char** argv) { return kvern::Main(argc, argv); }
