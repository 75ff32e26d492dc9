// Speed of attention: decode as a share of the bandwidth (K and V come from memory), prefill of a whole prompt as a
// share of the f32 FMA peak (needed products only). Three KV heads, f16 K and V, as in SmolLM2; measured as measure.h
// says.
//   attention_bench [--target NAME] [--threads N] [--samples N] [--block-size N] [--only TEXT]
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "base/thread_pool.h"
#include "bench/micro/measure.h"
#include "kernels/attention.h"
#include "kernels/dispatch.h"
#include "kernels/probes.h"
#include "platform/affinity.h"
#include "platform/huge_pages.h"

namespace kvern {
namespace {

constexpr uint32_t kNumKvHeads = 3;

struct Flags : BenchFlags {
  uint32_t block_size = 256;
};

struct Case {
  bool is_prefill;
  uint32_t head_dim, group_size, num_tokens;
};

// A cache of one sequence with as many layers as fill `num_bytes`, so that no layer is still in a cache when it is read
// again. Blocks below the size of a split are scattered, as they may be in a pool that has been in use.
struct BenchCache {
  KvView view;
  AlignedBuffer memory;
  std::vector<BlockIndex> table;
  uint32_t num_layers;

  BenchCache(const Case& c, uint32_t block_size, size_t num_bytes) {
    const size_t half_bytes = size_t{block_size} * c.head_dim * sizeof(uint16_t);
    table.resize((c.num_tokens + block_size - 1) / block_size);
    std::iota(table.begin(), table.end(), 0u);
    if (block_size < kAttentionSplitSlots) std::shuffle(table.begin(), table.end(), std::mt19937(1));
    view.block_size = block_size;
    view.num_kv_heads = kNumKvHeads;
    view.head_dim = c.head_dim;
    view.v_offset = half_bytes;
    view.head_stride = 2 * half_bytes;
    view.layer_stride = view.head_stride * kNumKvHeads;
    num_layers = static_cast<uint32_t>(std::max<size_t>(1, num_bytes / (view.layer_stride * table.size())));
    view.block_stride = view.layer_stride * num_layers;
    memory = HugePageAllocator().Allocate(view.block_stride * table.size()).value();
    view.base = memory.data();
    std::mt19937 random(2);
    uint32_t* const words = memory.as<uint32_t>();
    // Pairs of f16 between 1/8 and 1/4, of either sign.
    for (size_t i = 0; i < memory.size() / sizeof(uint32_t); ++i) words[i] = 0x30003000u + (random() & 0x83ff83ffu);
  }
};

void RunCase(const KernelTable& kernels, ThreadPool& pool, const Case& c, const Flags& flags) {
  char label[128];
  std::snprintf(label, sizeof(label), "%s %s head=%u group=%u tokens=%u block=%u threads=%u", kernels.name,
                c.is_prefill ? "prefill" : "decode", c.head_dim, c.group_size, c.num_tokens, flags.block_size,
                pool.num_threads());
  if (!flags.only.empty() && std::strstr(label, flags.only.c_str()) == nullptr) return;

  const BenchCache cache(c, flags.block_size, size_t{c.is_prefill ? 64u : 1000u} << 20);
  const uint32_t num_heads = kNumKvHeads * c.group_size, num_rows = c.is_prefill ? c.num_tokens : 1;
  const size_t row_floats = size_t{num_heads} * c.head_dim;
  const SequenceRows rows{0, num_rows, c.num_tokens - num_rows, cache.table};
  std::mt19937 random(3);
  std::normal_distribution<float> normal;
  std::vector<float> q(num_rows * row_floats), out(q.size());
  for (float& x : q) x = normal(random);
  AttentionPlan plan;
  const Status status =
      plan.Build(kernels, {&rows, 1}, num_heads, kNumKvHeads, c.head_dim, pool.num_threads(), HugePageAllocator());
  if (!status.ok()) {
    std::fprintf(stderr, "attention_bench: %s\n", status.message().c_str());
    return;
  }

  const double bytes_per_layer = 2.0 * sizeof(uint16_t) * c.num_tokens * c.head_dim * kNumKvHeads;
  const double products = 0.5 * c.num_tokens * (c.num_tokens + 1.0) * num_heads;
  const double units_per_layer = c.is_prefill ? 4.0 * products * c.head_dim * 1e-12 : bytes_per_layer * 1e-9;
  const uint32_t layers_at_once =
      c.is_prefill ? 1 : static_cast<uint32_t>(std::clamp(40e6 * pool.num_threads() / bytes_per_layer, 1.0, 1e6));
  const size_t part_bytes = cache.memory.size() / 32 / 64 * 64;
  std::vector<uint32_t> turns(pool.num_threads() * 16), probes(pool.num_threads() * 16);  // A cache line each.
  const auto work = [&](Worker& worker) {
    uint32_t& turn = turns[worker.index() * 16];
    for (uint32_t i = 0; i < layers_at_once; ++i) {
      const uint32_t layer = turn++ % cache.num_layers;
      plan.Run({q.data(), row_floats, out.data(), row_floats, cache.view, layer, num_heads,
                1.0f / std::sqrt(static_cast<float>(c.head_dim))},
               worker);
      worker.Barrier();
    }
    return units_per_layer * layers_at_once / worker.count();
  };
  const auto probe = [&](Worker& worker) {
    if (c.is_prefill) return RunF32FmaProbe(60000) * 1e-12;
    const uint32_t part = (probes[worker.index() * 16]++ * 7 + worker.index() * 16) % 32;
    RunReadProbe({cache.memory.data() + part * part_bytes, part_bytes});
    return static_cast<double>(part_bytes) * 1e-9;
  };
  const Measurement m = Measure(pool, flags.samples, work, probe);
  std::printf("%-68s %8.3f %-8s %5.1f %%  quiet %2zu of %2zu: %8.3f %5.1f %%\n", label, m.rate,
              c.is_prefill ? "TFLOPS" : "GB/s", 100 * m.share, m.num_quiet, m.num_samples, m.quiet_rate,
              100 * m.quiet_share);
  std::fflush(stdout);
}

int Main(int argc, char** argv) {
  Flags flags;
  static_cast<BenchFlags&>(flags) = ParseBenchFlags(argc, argv, [&](const std::string& name, const std::string& value) {
    if (name == "--block-size") flags.block_size = static_cast<uint32_t>(std::stoul(value));
  });
  return RunBench("attention_bench", flags, [&](const KernelTable& kernels, ThreadPool& pool) {
    for (const auto& [head_dim, group_size] : {std::pair{64u, 3u}, {128u, 4u}}) {
      for (const uint32_t tokens : {512u, 4096u, 16384u}) {
        RunCase(kernels, pool, {false, head_dim, group_size, tokens}, flags);
      }
      for (const uint32_t tokens : {512u, 2048u}) RunCase(kernels, pool, {true, head_dim, group_size, tokens}, flags);
    }
  });
}

}  // namespace
}  // namespace kvern

int main(int argc, char** argv) { return kvern::Main(argc, argv); }
