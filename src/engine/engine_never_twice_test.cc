// Many clients at once, prompts that overlap at random: what any of them has computed, none computes again.
#include <gtest/gtest.h>

#include <mutex>
#include <random>
#include <set>
#include <thread>
#include <vector>

#include "kvern/engine.h"
#include "tests/support/fake_engine.h"

namespace kvern {
namespace {

constexpr uint32_t kBlock = 16;
constexpr TokenId kLast = 63;  // In no block, so nothing of it is found.

// A path of blocks from the root of a tree in which each block has three that may follow; then one token of its own.
std::vector<TokenId> RandomPrompt(std::mt19937& random) {
  std::vector<TokenId> prompt;
  const uint32_t num_blocks = 1 + random() % 6;
  for (uint32_t b = 0; b < num_blocks; ++b) {
    const uint32_t branch = random() % 3;
    for (uint32_t i = 0; i < kBlock; ++i) prompt.push_back(static_cast<TokenId>(1 + 16 * branch + (b + i) % 16));
  }
  prompt.push_back(kLast);
  return prompt;
}

// `salt_of(client)` says whose cache a client's prompts are in.
void ExpectEachBlockOnce(uint32_t seed, const std::function<std::string(uint32_t)>& salt_of) {
  constexpr uint32_t kClients = 8, kRequests = 12;
  EngineOptions options = FakeEngineOptions(/*context_tokens=*/128);
  options.cache.block_size = kBlock;
  options.cache.budget_bytes = 4000 * kFakeBlockBytes;  // Nothing is evicted.
  options.prefill_chunk = 1 + seed * 11 % 40;
  options.cache.reuses_prefixes = true;
  options.max_sequences = 16;
  options.max_queued = kClients;
  const FakeEngine fake = MakeFakeEngine(options);
  std::mutex mutex;
  std::set<std::pair<std::string, std::vector<TokenId>>> blocks;  // Each with all before it.
  std::vector<std::thread> clients;
  for (uint32_t client = 0; client < kClients; ++client) {
    clients.emplace_back([&, client] {
      std::mt19937 random(seed * kClients + client);
      for (uint32_t i = 0; i < kRequests; ++i) {
        const std::vector<TokenId> prompt = RandomPrompt(random);
        {
          const std::scoped_lock lock(mutex);
          for (auto end = prompt.begin() + kBlock; end < prompt.end(); end += kBlock) {
            blocks.emplace(salt_of(client), std::vector<TokenId>(prompt.begin(), end));
          }
        }
        const Answer answer = Ask(*fake.engine, {.prompt = prompt, .max_tokens = 1, .cache_salt = salt_of(client)});
        EXPECT_EQ(answer.tokens, FakeGreedyAnswer(prompt, 1));
        EXPECT_EQ(answer.stats.prompt_tokens_reused + answer.stats.prompt_tokens_computed, prompt.size());
      }
    });
  }
  for (std::thread& client : clients) client.join();

  EXPECT_EQ(fake.engine->Stats().tokens_computed, blocks.size() * kBlock + kClients * kRequests) << "seed " << seed;
}

TEST(EngineNeverTwiceTest, EachBlockOfEachPrefixIsComputedOnce) {
  for (uint32_t seed = 0; seed < 20; ++seed) ExpectEachBlockOnce(seed, [](uint32_t) { return ""; });
}

TEST(EngineNeverTwiceTest, OncePerTenantWhereThereAreSome) {
  for (uint32_t seed = 0; seed < 10; ++seed) {
    ExpectEachBlockOnce(seed, [](uint32_t client) { return std::to_string(client % 3); });
  }
}

}  // namespace
}  // namespace kvern
