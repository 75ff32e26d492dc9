// The process never grows past budget + weights + a constant, whatever is asked of it.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <vector>

#include "kvern/diagnostics.h"
#include "kvern/engine.h"
#include "tests/support/real_model.h"
#include "tests/support/tiny_model.h"

namespace kvern {
namespace {

// What a process needs besides weights and cache: code, tokenizer, buffers of one step (docs/life_of_a_block.md).
constexpr uint64_t kProcessBytes = 64ull << 20;

// A sanitizer's own memory is in the peak as well.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kIsSanitized = true;
#else
constexpr bool kIsSanitized = false;
#endif

// Runs `body` in a process of its own, whose peak is then its own too; its exit code.
int InChild(const std::function<int()>& body) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(body());
  int state = 0;
  ::waitpid(child, &state, 0);
  return WIFEXITED(state) ? WEXITSTATUS(state) : 255;
}

// Fills the whole budget with sequences, more than fit at once, and says whether the peak stayed below.
int FillBudget(EngineOptions options, uint32_t prompt_tokens, uint32_t num_requests) {
  options.step_budget_ms = 0;  // All prompts go on together, so that all blocks are in use before the first ends.
  const uint64_t before = PeakMemoryBytes();
  auto engine = Engine::Open(options);
  if (!engine.ok()) {
    std::fprintf(stderr, "%s\n", engine.status().ToString().c_str());
    return 2;
  }
  std::vector<TokenStream> streams;
  for (uint32_t i = 0; i < num_requests; ++i) {
    auto stream =
        (*engine)->Submit({.prompt = RandomTokens(prompt_tokens, 256, i), .max_tokens = 8, .ends_at_eos = false});
    if (!stream.ok()) return 3;
    streams.push_back(std::move(stream).value());
  }
  for (TokenStream& stream : streams) {
    while (stream.Next()) {
    }
    if (!stream.status().ok()) return 4;
  }
  const EngineStats stats = (*engine)->Stats();
  const uint64_t grown = PeakMemoryBytes() - before;
  const uint64_t allowed = stats.weight_bytes + options.cache.budget_bytes + kProcessBytes;
  std::fprintf(stderr, "grown by %.1f MiB: weights %.1f, budget %.1f, of which %.1f used at the peak\n",
               grown / 1048576.0, stats.weight_bytes / 1048576.0, options.cache.budget_bytes / 1048576.0,
               stats.cache.peak_used_bytes / 1048576.0);
  if (stats.cache.peak_used_bytes > options.cache.budget_bytes) return 5;
  // The test is of use only where the cache was really filled.
  if (stats.cache.peak_used_bytes * 10 < options.cache.budget_bytes * 9) return 6;
  return grown <= allowed || kIsSanitized ? 0 : 1;
}

TEST(MemoryBudgetTest, ATinyModelStaysInsideForEveryPlacement) {
  std::string directory = testing::TempDir() + "kvern-budget-XXXXXX";
  ASSERT_NE(::mkdtemp(directory.data()), nullptr);
  const std::string path = directory + "/tiny.gguf";
  {
    const std::vector<uint8_t> bytes =
        TinyModelBytes({.vocab_size = 272, .context_tokens = 8192, .has_tokenizer = true});
    std::ofstream out(path, std::ios::binary);
    out.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  }

  for (const std::string placement : {"paged", "contiguous"}) {
    EngineOptions options;
    options.model_path = path;
    options.cache.placement = placement;
    options.cache.block_size = 16;
    options.cache.budget_bytes = 2u << 20;  // 4,096 tokens.
    EXPECT_EQ(InChild([&] { return FillBudget(options, /*prompt_tokens=*/500, /*num_requests=*/30); }), 0) << placement;
  }
  std::filesystem::remove_all(directory);
}

TEST(MemoryBudgetTest, SmolLm2StaysInside) {
  if (SmolLm2Path().empty()) GTEST_SKIP() << "models/SmolLM2-135M-Instruct.Q4_1.gguf is absent";
  EngineOptions options;
  options.model_path = SmolLm2Path();
  options.cache.block_size = 16;
  options.cache.budget_bytes = 64ull << 20;  // 2,900 tokens.

  EXPECT_EQ(InChild([&] { return FillBudget(options, /*prompt_tokens=*/280, /*num_requests=*/12); }), 0);
}

}  // namespace
}  // namespace kvern
