// Hit equals miss on the real model: a covering selection of targets, threads, block sizes, chunks, codecs and batches
// against the plain forward pass in `generic` code. generic takes about half a second a token, so the texts are short.
#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "base/check.h"
#include "kernels/dispatch.h"
#include "platform/file_system.h"
#include "tests/support/forward_harness.h"
#include "tests/support/real_model.h"
#include "tests/support/tiny_model.h"

namespace kvern {
namespace {

struct Loaded {
  std::unique_ptr<ThreadPool> pool;
  std::unique_ptr<Model> model;
};

Loaded Load(const GgufFile& file, const KernelTable& kernels, uint32_t num_threads) {
  Loaded loaded;
  loaded.pool = std::make_unique<ThreadPool>(num_threads);
  auto model = LoadModel(file, {.kernels = &kernels, .pool = loaded.pool.get(), .allocator = &HeapAllocator()});
  KVERN_CHECK(model.ok());
  loaded.model = std::move(model).value();
  return loaded;
}

TEST(SmolLm2ExactnessTest, EveryCutGivesTheBitsOfTheUncachedGenericForward) {
  if (SmolLm2Path().empty()) GTEST_SKIP() << "the model is not in models/: scripts/fetch_model.sh smollm2";
  auto file = GgufFile::Open(PosixFileSystem(), SmolLm2Path());
  ASSERT_TRUE(file.ok()) << file.status().ToString();
  const KernelTable& generic = *RunnableTargets().front();
  const std::vector<std::vector<TokenId>> sequences = {RandomTokens(35, 49152, 1), RandomTokens(19, 49152, 2)};

  // The selection: every target meets every thread count and block size; chunks and codecs rotate through them.
  const std::vector<uint32_t> chunks = {1, 2, 3, 7, 16, 64, 512, 0};
  const Loaded oracle = Load(*file, generic, /*num_threads=*/2);
  for (KvType kv_type : {KvType::kF32, KvType::kF16}) {
    std::vector<ForwardTrace> expected;
    for (const auto& tokens : sequences) {
      expected.push_back(RunForward(*oracle.model, generic, {tokens}, {.kv_type = kv_type}).traces[0]);
    }
    size_t turn = kv_type == KvType::kF32 ? 0 : 3;
    for (const KernelTable* target : RunnableTargets()) {
      if (target == &generic) continue;
      for (uint32_t threads : {1u, 2u, 3u}) {
        const Loaded fast = Load(*file, *target, threads);
        for (uint32_t block_size : {16u, 32u, 64u, 256u}) {
          const ForwardPlan plan = {.block_size = block_size,
                                    .chunk = chunks[turn++ % chunks.size()],
                                    .kv_type = kv_type,
                                    .is_uncached = turn % 5 == 0};
          const bool is_batched = turn % 3 != 0;
          const auto found = is_batched ? RunForward(*fast.model, *target, sequences, plan)
                                        : RunForward(*fast.model, *target, {sequences[0]}, plan);
          for (size_t i = 0; i < found.traces.size(); ++i) {
            EXPECT_EQ(found.traces[i].FirstDifference(expected[i]), "")
                << target->name << ", " << threads << " threads, " << plan.ToString();
          }
          ASSERT_FALSE(HasFailure());
        }
      }
    }
  }
}

}  // namespace
}  // namespace kvern
