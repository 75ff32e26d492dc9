// Attention and load_kv over blocks of any bytes, for any codecs, shape and cut: nothing traps, and every target that
// this CPU runs gives the bits of `generic`. The input: a header of codecs and shape, then bytes that fill queries and
// blocks, repeated as often as needed.
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <span>
#include <string>
#include <vector>

#include "base/thread_pool.h"
#include "fuzz/source.h"
#include "kernels/attention.h"
#include "kernels/dispatch.h"
#include "kvcache/block_layout.h"
#include "kvcache/codecs/codec_registry.h"

namespace kvern {
namespace {

float Float(Source& source) {
  const uint32_t word = source.Word();
  return word % 8 == 0 ? std::bit_cast<float>(word) : static_cast<float>(static_cast<int32_t>(word)) * 0x1p-30f;
}

struct Input {
  KvView view;
  uint32_t group_size, num_rows, num_tokens;
  std::vector<BlockIndex> table;
  std::vector<float> q;
};

std::vector<float> Attend(const KernelTable& kernels, const Input& input, uint32_t chunk) {
  const size_t row_floats = size_t{input.view.head_dim} * input.group_size;
  std::vector<float> out(input.q.size());
  AttentionPlan plan;
  ThreadPool pool(1);
  for (uint32_t row = 0; row < input.num_rows; row += chunk) {
    const SequenceRows rows{row,
                            std::min(chunk, input.num_rows - row),
                            input.num_tokens - input.num_rows + row,
                            {std::span<const BlockIndex>(input.table)}};
    if (!plan.Build(kernels, {&rows, 1}, {}, {input.group_size, 1, input.view.head_dim}, 1, HeapAllocator()).ok()) {
      return {};
    }
    pool.Run([&](Worker& worker) {
      plan.Run({input.q.data(), row_floats, out.data(), row_floats, input.view, 0, input.group_size, 0.125f}, worker);
    });
  }
  return out;
}

std::vector<float> LoadAll(const KernelTable& kernels, const Input& input) {
  std::vector<float> rows(size_t{input.num_tokens} * 2 * input.view.head_dim);
  for (uint32_t t = 0; t < input.num_tokens; ++t) {
    float* const k = rows.data() + size_t{t} * 2 * input.view.head_dim;
    kernels.load_kv(input.view, 0, input.table[t / input.view.block_size], t % input.view.block_size, k,
                    k + input.view.head_dim);
  }
  return rows;
}

void Expect(const std::vector<float>& found, const std::vector<float>& expected, const char* target,
            const std::string& what) {
  for (size_t i = 0; i < found.size(); ++i) {
    const bool both_nan = std::isnan(found[i]) && std::isnan(expected[i]);
    if (both_nan || std::bit_cast<uint32_t>(found[i]) == std::bit_cast<uint32_t>(expected[i])) continue;
    std::fprintf(stderr, "kv_codecs: %s, %s: element %zu is %g, generic has %g\n", target, what.c_str(), i, found[i],
                 expected[i]);
    std::abort();
  }
}

void Check(Source& source) {
  const auto k_type = static_cast<KvType>(source.Byte() % AllCodecs().size());
  const auto v_type = static_cast<KvType>(source.Byte() % AllCodecs().size());
  constexpr uint32_t kHeadDims[] = {16, 32, 64, 80, 128};
  const uint32_t head_dim = kHeadDims[source.Byte() % std::size(kHeadDims)];
  const uint32_t block_size = 16 * (1 + source.Byte() % 3);
  const auto layout = BlockLayout::Create({1, 1, head_dim}, block_size, k_type, v_type);
  if (!layout.ok()) return;

  Input input;
  input.group_size = 1 + source.Byte() % 7;
  input.num_tokens = 1 + (source.Byte() | (source.Byte() & 1) << 8);
  input.num_rows = 1 + source.Byte() % std::min(20u, input.num_tokens);
  const uint32_t chunk = 1 + source.Byte() % input.num_rows;
  const auto num_blocks = static_cast<uint32_t>(layout->BlocksFor(input.num_tokens));
  for (uint32_t block = num_blocks; block > 0; --block) input.table.push_back(block - 1);
  std::vector<uint8_t> memory(num_blocks * layout->block_bytes());
  input.q.resize(size_t{input.num_rows} * input.group_size * head_dim);
  for (float& x : input.q) x = Float(source);
  for (uint8_t& byte : memory) byte = source.Byte();
  input.view = layout->View(memory.data());

  const KernelTable& generic = *RunnableTargets().front();
  const std::vector<float> attended = Attend(generic, input, input.num_rows), loaded = LoadAll(generic, input);
  const std::string what = "K " + std::string(KvTypeName(k_type)) + ", V " + std::string(KvTypeName(v_type)) +
                           ", head size " + std::to_string(head_dim) + ", tokens " + std::to_string(input.num_tokens) +
                           ", rows " + std::to_string(input.num_rows) + " by " + std::to_string(chunk);
  for (const KernelTable* target : RunnableTargets()) {
    Expect(Attend(*target, input, chunk), attended, target->name, what + ", attention");
    Expect(LoadAll(*target, input), loaded, target->name, what + ", load_kv");
  }
}

}  // namespace
}  // namespace kvern

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  kvern::Source source({data, size});
  kvern::Check(source);
  return 0;
}
