// Hit equals miss on the real models: a covering selection of targets, threads, block sizes, chunks, codecs and batches
// against the plain forward pass in `generic` code. generic takes half a second a token and more, so the texts are
// short.
#include <gtest/gtest.h>

#include <memory>
#include <ostream>
#include <string>
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

// What is run: every target meets every thread count and block size; chunks and codecs rotate through them.
struct Selection {
  const char* label;
  std::string (*path)();
  const char* fetch_name;  // For scripts/fetch_model.sh.
  std::vector<uint32_t> lengths;
  std::vector<KvType> kv_types;
  std::vector<uint32_t> threads;
  std::vector<uint32_t> block_sizes;
};
void PrintTo(const Selection& selection, std::ostream* out) { *out << selection.label; }

class ModelExactnessTest : public testing::TestWithParam<Selection> {};

INSTANTIATE_TEST_SUITE_P(
    Models, ModelExactnessTest,
    testing::Values(
        Selection{
            "SmolLM2", SmolLm2Path, "smollm2", {35, 19}, {KvType::kF32, KvType::kF16}, {1, 2, 3}, {16, 32, 64, 256}},
        // Most of its work is the output head of 262,144 rows.
        Selection{"Gemma3", Gemma3Path, "gemma3", {21, 9}, {KvType::kF16}, {1, 2, 3}, {16, 64}}),
    [](const auto& param_info) { return std::string(param_info.param.label); });

TEST_P(ModelExactnessTest, EveryCutGivesTheBitsOfTheUncachedGenericForward) {
  const Selection& selection = GetParam();
  if (selection.path().empty()) {
    GTEST_SKIP() << "the model is not in models/: scripts/fetch_model.sh " << selection.fetch_name;
  }
  auto file = GgufFile::Open(PosixFileSystem(), selection.path());
  ASSERT_TRUE(file.ok()) << file.status().ToString();
  const KernelTable& generic = *RunnableTargets().front();
  const Loaded oracle = Load(*file, generic, /*num_threads=*/2);
  const uint32_t vocab_size = oracle.model->config().vocab_size;
  const std::vector<std::vector<TokenId>> sequences = {RandomTokens(selection.lengths[0], vocab_size, 1),
                                                       RandomTokens(selection.lengths[1], vocab_size, 2)};

  const std::vector<uint32_t> chunks = {1, 2, 3, 7, 16, 64, 512, 0};
  for (KvType kv_type : selection.kv_types) {
    std::vector<ForwardTrace> expected;
    for (const auto& tokens : sequences) {
      expected.push_back(RunForward(*oracle.model, generic, {tokens}, {.kv_type = kv_type}).traces[0]);
    }
    size_t turn = kv_type == KvType::kF32 ? 0 : 3;
    for (const KernelTable* target : RunnableTargets()) {
      if (target == &generic) continue;
      for (uint32_t threads : selection.threads) {
        const Loaded fast = Load(*file, *target, threads);
        for (uint32_t block_size : selection.block_sizes) {
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
