// Speed of attention. Decode of one sequence is a share of the bandwidth (K and V come from memory); prefill, and
// decode of many sequences with and without sharing their prompt, of the f32 FMA peak (needed products only). Three KV
// heads and f16 K and V, but for the rows named "codec": decode with every codec, whose last column is tokens per
// second as a multiple of those with f16 (by the shares of the bandwidth that each reached). Measured as measure.h
// says.
//   attention_bench [--target NAME] [--threads N] [--samples N] [--block-size N] [--scattered 1] [--megabytes N]
//     [--depth N] [--only TEXT] [--json FILE]
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <numeric>
#include <random>
#include <string>
#include <utility>
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

constexpr uint32_t kDefaultKvHeads = 3;

struct Flags : BenchFlags {
  uint32_t block_size = 256;
  bool is_scattered = false;                     // Each small block anywhere, not in runs as a pool leases them.
  uint32_t megabytes = 1000;                     // Of K and V, over all layers: with few they stay in a cache.
  std::vector<uint32_t> depths = {8192, 16384};  // Of the rows named "codec".
};

// Each of num_sequences has `depth` tokens in the cache, the first num_shared of them in common blocks, and computes
// num_rows more.
struct Case {
  const char* name;
  uint32_t head_dim, group_size, depth;
  uint32_t num_rows = 1, num_sequences = 1, num_shared = 0;
  bool is_shared = false;              // Attention is told of the common blocks.
  uint32_t window = 0, num_sinks = 0;  // What rows see; 0: all.
  uint32_t num_kv_heads = kDefaultKvHeads;
  KvType k_type = KvType::kF16, v_type = KvType::kF16;

  uint32_t num_heads() const { return num_kv_heads * group_size; }
  double bytes_per_token() const {
    return static_cast<double>(KvHeadGranuleBytes(k_type, v_type, head_dim)) * num_kv_heads / kGranuleSlots;
  }
  uint32_t num_tokens() const { return depth + num_rows; }
  bool is_bound_by_memory() const { return num_rows * num_sequences == 1; }
  uint32_t num_tokens_read() const { return window == 0 ? num_tokens() : std::min(window + num_sinks, num_tokens()); }
  double num_products() const {
    if (is_bound_by_memory()) return static_cast<double>(num_tokens_read()) * num_heads();
    return (static_cast<double>(depth) + 0.5 * (num_rows + 1)) * num_rows * num_sequences * num_heads();
  }
};

// Memory full of numbers that are sane under every codec and as scales: as f16 between 1/8 and 2, of either sign.
AlignedBuffer MakeKv(size_t num_bytes) {
  AlignedBuffer memory = HugePageAllocator().Allocate(num_bytes).value();
  std::minstd_rand random(2);
  uint32_t* const words = memory.as<uint32_t>();
  for (size_t i = 0; i < num_bytes / sizeof(uint32_t); ++i) words[i] = 0x30003000u | (random() * 5 & 0x8bbf8bbfu);
  return memory;
}

// Puts runs of `run_length` blocks into a random order, the blocks of each in their own.
void ShuffleRuns(size_t run_length, std::vector<BlockIndex>& blocks) {
  std::vector<size_t> runs((blocks.size() + run_length - 1) / run_length);
  std::iota(runs.begin(), runs.end(), size_t{0});
  std::shuffle(runs.begin(), runs.end(), std::mt19937(1));
  std::vector<BlockIndex> shuffled;
  for (const size_t run : runs) {
    const size_t begin = run * run_length, end = std::min(begin + run_length, blocks.size());
    shuffled.insert(shuffled.end(), blocks.begin() + static_cast<long>(begin), blocks.begin() + static_cast<long>(end));
  }
  blocks = std::move(shuffled);
}

// A cache in `memory` with as many layers as fill it, so that no layer is still in a cache when it is read again.
// Blocks below the size of a split stand in runs that make one up, the runs anywhere.
struct BenchCache {
  KvView view;
  std::vector<std::vector<BlockIndex>> tables;
  uint32_t num_layers;

  BenchCache(const Case& c, uint32_t block_size, bool is_scattered, AlignedBuffer& memory) {
    const uint32_t num_shared = c.num_shared / block_size;
    const uint32_t num_own = (c.num_tokens() + block_size - 1) / block_size - num_shared;
    std::vector<BlockIndex> blocks(num_shared + c.num_sequences * num_own);
    std::iota(blocks.begin(), blocks.end(), 0u);
    if (block_size < kAttentionSplitSlots) ShuffleRuns(is_scattered ? 1 : kAttentionSplitSlots / block_size, blocks);
    for (uint32_t s = 0; s < c.num_sequences; ++s) {
      tables.emplace_back(blocks.begin(), blocks.begin() + num_shared);
      const auto own = blocks.begin() + num_shared + s * num_own;
      tables.back().insert(tables.back().end(), own, own + num_own);
    }
    view.base = memory.data();
    view.block_size = block_size;
    view.num_kv_heads = c.num_kv_heads;
    view.head_dim = c.head_dim;
    view.k_type = c.k_type;
    view.v_type = c.v_type;
    view.layer_stride = view.LayOutHeads();
    // A prompt from its beginning attends to what the step itself has just written.
    num_layers = c.depth == 0 ? 1 : static_cast<uint32_t>(memory.size() / (view.layer_stride * blocks.size()));
    view.block_stride = view.layer_stride * num_layers;
  }
};

// Returns the share of the limit that was reached, over the quiet samples where there are any; 0 where the case was not
// asked for. `f16_share` is that of f16 K and V where they are what the case is compared with.
double RunCase(const KernelTable& kernels, ThreadPool& pool, const Case& c, AlignedBuffer& memory, const Flags& flags,
               double f16_share = 0) {
  char label[128];
  std::snprintf(label, sizeof(label), "%s %s head=%u group=%u depth=%u threads=%u", kernels.name, c.name, c.head_dim,
                c.group_size, c.depth, pool.num_threads());
  if (!flags.only.empty() && std::strstr(label, flags.only.c_str()) == nullptr) return 0;

  const BenchCache cache(c, flags.block_size, flags.is_scattered, memory);
  const size_t row_floats = size_t{c.num_heads()} * c.head_dim;
  std::vector<SequenceRows> rows;
  for (uint32_t s = 0; s < c.num_sequences; ++s) {
    rows.push_back({s * c.num_rows, c.num_rows, c.depth, cache.tables[s]});
  }
  std::mt19937 random(3);
  std::normal_distribution<float> normal;
  std::vector<float> q(c.num_sequences * c.num_rows * row_floats), out(q.size());
  for (float& x : q) x = normal(random);
  const SharedPrefix prefix{0, c.num_sequences, c.num_shared};
  const PositionRange sinks{0, c.num_sinks};
  const AttentionSpan span{c.window, {&sinks, c.num_sinks > 0 ? 1u : 0u}};
  AttentionPlan plan;
  const Status status = plan.Build(kernels, rows, {&prefix, c.is_shared ? 1u : 0u},
                                   {c.num_heads(), c.num_kv_heads, c.head_dim, /*layer_group=*/0, span},
                                   pool.num_threads(), HugePageAllocator());
  if (!status.ok()) {
    std::fprintf(stderr, "attention_bench: %s\n", status.message().c_str());
    return 0;
  }

  const double bytes = c.bytes_per_token() * c.num_tokens_read();
  // A sample lasts long enough to warm the caches that others have used in between.
  const double units_of_layer = c.is_bound_by_memory() ? bytes * 1e-9 : 4.0 * c.num_products() * c.head_dim * 1e-12;
  const double units_of_sample = (c.is_bound_by_memory() ? 40e-3 : 4e-3) * pool.num_threads();
  const auto layers_at_once = static_cast<uint32_t>(std::clamp(units_of_sample / units_of_layer, 1.0, 1e6));
  const size_t part_bytes = memory.size() / 32 / 64 * 64;
  std::vector<uint32_t> turns(pool.num_threads() * 16), probes(pool.num_threads() * 16);  // A cache line each.
  const auto work = [&](Worker& worker) {
    uint32_t& turn = turns[worker.index() * 16];
    uint64_t num_products = 0;
    for (uint32_t i = 0; i < layers_at_once; ++i) {
      const uint32_t layer = turn++ % cache.num_layers;
      num_products += plan.Run({q.data(), row_floats, out.data(), row_floats, cache.view, layer, c.num_heads(),
                                1.0f / std::sqrt(static_cast<float>(c.head_dim)), q.data()},
                               worker);
      worker.Barrier();
    }
    return units_of_layer / c.num_products() * static_cast<double>(num_products);
  };
  const auto probe = [&](Worker& worker) {
    if (!c.is_bound_by_memory()) return RunF32FmaProbe(60000) * 1e-12;
    const uint32_t part = (probes[worker.index() * 16]++ * 7 + worker.index() * 16) % 32;
    RunReadProbe({memory.data() + part * part_bytes, part_bytes});
    return static_cast<double>(part_bytes) * 1e-9;
  };
  const Measurement m = Measure(pool, flags.samples, work, probe);
  const double share = m.num_quiet > 0 ? m.quiet_share : m.share;
  if (f16_share > 0) {
    const double f16_bytes = 2.0 * sizeof(uint16_t) * c.head_dim * c.num_kv_heads;
    std::snprintf(label + std::strlen(label), sizeof(label) - std::strlen(label), " tokens/f16=%.2f",
                  share / f16_share * f16_bytes / c.bytes_per_token());
  }
  ReportRow(flags, label, c.is_bound_by_memory() ? "GB/s" : "TFLOPS", m);
  return share;
}

// Decode with every codec, in the shapes of SmolLM2, of many KV heads and of Gemma 3.
void RunCodecs(const KernelTable& kernels, ThreadPool& pool, AlignedBuffer& memory, const Flags& flags) {
  struct Codec {
    const char* name;
    KvType k_type, v_type;
  };
  constexpr Codec kCodecs[] = {
      {"codec-bf16", KvType::kBF16, KvType::kBF16},
      {"codec-e4m3", KvType::kF8E4M3, KvType::kF8E4M3},
      {"codec-e5m2", KvType::kF8E5M2, KvType::kF8E5M2},
      {"codec-int8", KvType::kI8, KvType::kI8},
      {"codec-k8v4", KvType::kI8, KvType::kI4},
      {"codec-int4", KvType::kI4, KvType::kI4},
      {"codec-int4_head", KvType::kI4Head, KvType::kI4Head},
  };
  struct Heads {
    uint32_t head_dim, group_size, num_kv_heads;
  };
  for (const Heads& heads : {Heads{64, 3, 3}, {64, 4, 8}, {256, 4, 1}}) {
    for (const uint32_t depth : flags.depths) {
      Case c{"codec-f16", heads.head_dim, heads.group_size, depth - 1};
      c.num_kv_heads = heads.num_kv_heads;
      const double f16_share = RunCase(kernels, pool, c, memory, flags);
      for (const Codec& codec : kCodecs) {
        c.name = codec.name;
        c.k_type = codec.k_type;
        c.v_type = codec.v_type;
        RunCase(kernels, pool, c, memory, flags, f16_share);
      }
    }
  }
}

void RunCases(const KernelTable& kernels, ThreadPool& pool, AlignedBuffer& memory, const Flags& flags) {
  const auto run = [&](const Case& c) { RunCase(kernels, pool, c, memory, flags); };
  RunCodecs(kernels, pool, memory, flags);
  for (const auto& [head_dim, group_size] :
       {std::pair{64u, 1u}, {64u, 3u}, {64u, 4u}, {64u, 8u}, {80u, 4u}, {128u, 4u}, {128u, 8u}, {256u, 4u}}) {
    for (const uint32_t tokens : {512u, 4096u, 16384u}) run({"decode", head_dim, group_size, tokens - 1});
  }
  // What a window of 1024 and 4 sinks leaves of 16k tokens, beside a context as long as that.
  for (const auto& [head_dim, group_size] : {std::pair{64u, 3u}, {256u, 4u}}) {
    run({"decode", head_dim, group_size, 1024 + 4 - 1});
    Case c{"decode-window-1k", head_dim, group_size, 16384 - 1};
    c.window = 1024;
    c.num_sinks = 4;
    run(c);
  }
  for (const auto& [head_dim, group_size] : {std::pair{64u, 3u}, {80u, 4u}, {128u, 4u}, {256u, 4u}}) {
    run({"prefill-512", head_dim, group_size, 0, 512});
  }
  for (const auto& [head_dim, group_size] : {std::pair{64u, 3u}, {128u, 4u}}) {
    run({"prefill-2048", head_dim, group_size, 0, 2048});
    run({"prefill-512", head_dim, group_size, 16384, 512});
    for (const uint32_t num_sequences : {8u, 32u}) {
      Case c{num_sequences == 8 ? "decode-8" : "decode-32", head_dim, group_size, 2048 + 127, 1, num_sequences, 2048};
      run(c);
      c.name = num_sequences == 8 ? "decode-8-shared-2k" : "decode-32-shared-2k";
      c.is_shared = true;
      run(c);
    }
  }
}

int Main(int argc, char** argv) {
  Flags flags;
  static_cast<BenchFlags&>(flags) = ParseBenchFlags(argc, argv, [&](const std::string& name, const std::string& value) {
    if (name == "--block-size") flags.block_size = static_cast<uint32_t>(std::stoul(value));
    if (name == "--depth") flags.depths = {static_cast<uint32_t>(std::stoul(value))};
    if (name == "--scattered") flags.is_scattered = value != "0";
    if (name == "--megabytes") flags.megabytes = static_cast<uint32_t>(std::stoul(value));
  });
  AlignedBuffer memory = MakeKv(size_t{flags.megabytes} << 20);
  return RunBench("attention_bench", flags,
                  [&](const KernelTable& kernels, ThreadPool& pool) { RunCases(kernels, pool, memory, flags); });
}

}  // namespace
}  // namespace kvern

int main(int argc, char** argv) { return kvern::Main(argc, argv); }
