// Runs traces of requests through the prefix cache, without a model: which share of the input would not have been
// computed, by cache size and eviction policy, beside what an ideal LRU reaches; and what the bookkeeping costs.
//   replay [--block-size TOKENS] [--policy NAME] [TRACE.jsonl or directory ...]
// Without a path: $KVERN_TEST_DATA/traces. Results go to stdout, progress to a terminal on stderr.
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <system_error>
#include <vector>

#include "base/xorshift.h"
#include "bench/replay/trace.h"
#include "kvcache/policies/policy_registry.h"
#include "kvcache/prefix_cache.h"

namespace kvern::bench {
namespace {

using Clock = std::chrono::steady_clock;

double MicrosSince(Clock::time_point start) {
  return std::chrono::duration<double, std::micro>(Clock::now() - start).count();
}

constexpr uint64_t kCacheTokens[] = {500'000, 1'500'000, 5'100'000, 15'400'000, 25'600'000};

// The smallest blocks there are: nothing is computed, so their bytes are of no interest.
std::unique_ptr<KvCache> MakeCache(uint64_t cache_tokens, uint32_t block_size) {
  const BlockLayout layout = BlockLayout::Create({1, 1, 16}, block_size, KvType::kI8, KvType::kI8).value();
  KvCacheSpec spec;
  spec.placement = &PagedPlacement();
  spec.groups = {{.layout = layout, .num_blocks = cache_tokens / block_size}};
  spec.max_step_tokens = UINT32_MAX;
  return KvCache::Create(std::move(spec), HeapAllocator()).value();
}

struct Outcome {
  uint64_t hit_tokens = 0;
  uint64_t num_blocks = 0;  // Looked up.
  uint64_t num_published = 0;
  double key_us = 0, match_us = 0, publish_us = 0;
};

Outcome Replay(const Trace& trace, uint64_t cache_tokens, uint32_t block_size, std::string_view policy) {
  const std::unique_ptr<KvCache> cache = MakeCache(cache_tokens, block_size);
  KeyFields fields = {.model_digest = "trace", .block_size = block_size, .groups = {{}}, .pinned = {}};
  const auto prefix = PrefixCache::Create(*cache, fields, policy).value();
  const bool shows_progress = isatty(STDERR_FILENO) != 0;
  std::vector<TokenId> tokens;
  Outcome outcome;
  for (size_t i = 0; i < trace.requests.size(); ++i) {
    if (shows_progress && i % 256 == 0) {
      std::fprintf(stderr, "\r%s, %s, %.1f M tokens: %3zu %% ", trace.name.c_str(), std::string(policy).c_str(),
                   static_cast<double>(cache_tokens) * 1e-6, i * 100 / trace.requests.size());
    }
    TokensOf(trace.requests[i], tokens);
    SequenceCache sequence(*cache, tokens.size());
    KeyChain chain = prefix->NewChain("");
    auto start = Clock::now();
    chain.Extend(tokens);
    outcome.key_us += MicrosSince(start);
    start = Clock::now();
    (void)prefix->Match(tokens, tokens.size(), chain);
    outcome.match_us += MicrosSince(start);
    outcome.hit_tokens += prefix->Acquire(tokens, tokens.size(), chain, sequence).num_tokens;
    const BlockCounts missing = sequence.NumMissing(tokens.size());
    if (!prefix->MakeRoom(missing) || !sequence.Reserve(tokens.size()).ok()) {
      std::fprintf(stderr, "replay: a request of %zu tokens does not fit the cache\n", tokens.size());
      std::exit(1);
    }
    start = Clock::now();
    prefix->Commit(tokens, tokens.size() - sequence.num_tokens(), chain, sequence);
    outcome.publish_us += MicrosSince(start);
    prefix->Finish(tokens, chain, sequence);
    outcome.num_blocks += chain.num_keys();
  }
  if (shows_progress) std::fprintf(stderr, "\r%60s\r", "");
  outcome.num_published = prefix->Counters().published;
  return outcome;
}

void PrintTrace(const Trace& trace, uint32_t block_size, const std::string& only_policy) {
  std::printf("%s: %zu requests, %.1f M input tokens, blocks of %u\n", trace.name.c_str(), trace.requests.size(),
              static_cast<double>(trace.input_tokens) * 1e-6, block_size);
  std::printf("  %-10s %-8s %7s %7s %7s   %s\n", "cache", "policy", "hits %", "ideal", "gain",
              "us per request: keys, match, publish");
  std::vector<uint64_t> sizes(std::begin(kCacheTokens), std::end(kCacheTokens));
  sizes.push_back(trace.input_tokens + kTraceBlockTokens * trace.requests.size());  // Nothing has to leave.
  const auto percent = [&](uint64_t tokens) {
    return 100.0 * static_cast<double>(tokens) / static_cast<double>(trace.input_tokens);
  };
  for (const uint64_t size : sizes) {
    const double ideal = percent(IdealHitTokens(trace, size / kTraceBlockTokens));
    for (const PolicyEntry& policy : AllPolicies()) {
      if (!only_policy.empty() && policy.name != only_policy) continue;
      const Outcome outcome = Replay(trace, size, block_size, policy.name);
      const double hits = percent(outcome.hit_tokens), requests = static_cast<double>(trace.requests.size());
      std::printf("  %7.1f M  %-8s %7.2f %7.2f %+7.2f   %.1f, %.1f, %.1f\n", static_cast<double>(size) * 1e-6,
                  std::string(policy.name).c_str(), hits, ideal, hits - ideal, outcome.key_us / requests,
                  outcome.match_us / requests, outcome.publish_us / requests);
      std::fflush(stdout);
    }
  }
}

// Keys of blocks, one after the other as a chain needs them.
void PrintHashSpeed() {
  XorShift64 random(1);
  std::vector<TokenId> tokens(512);
  for (TokenId& token : tokens) token = static_cast<TokenId>(random.Next32() >> 12);
  std::printf("keys:");
  for (const uint32_t block_size : {16u, 64u, 512u}) {
    BlockKey key;
    constexpr int kBlocks = 20'000;
    const auto start = Clock::now();
    for (int i = 0; i < kBlocks; ++i) key = ChainKey(key, std::span(tokens).first(block_size));
    const double us = MicrosSince(start);
    std::printf(" %s%.0f tokens/us in blocks of %u", block_size == 16 ? "" : ", ", kBlocks * block_size / us,
                block_size);
  }
  std::printf("\n");
}

// The *.jsonl files among `paths` and in those of them that are directories.
Result<std::vector<std::string>> TracesIn(const std::vector<std::string>& paths) {
  std::vector<std::string> files;
  for (const std::string& path : paths) {
    if (!std::filesystem::is_directory(path)) {
      files.push_back(path);
      continue;
    }
    const size_t num_before = files.size();
    std::error_code error;
    for (std::filesystem::directory_iterator it(path, error), end; !error && it != end; it.increment(error)) {
      if (it->path().extension() == ".jsonl") files.push_back(it->path().string());
    }
    if (error) return Status::IoError(path + ": cannot be read: " + error.message());
    if (files.size() == num_before) return Status::NotFound(path + ": the directory holds no *.jsonl file");
  }
  return files;
}

int Fail(const Status& status, int exit_code = 1) {
  std::fprintf(stderr, "replay: %s\n", status.ToString().c_str());
  return exit_code;
}

int Main(int argc, char** argv) {
  uint32_t block_size = kTraceBlockTokens;
  std::string policy;
  std::vector<std::string> paths;
  bool is_good = true;
  for (int i = 1; i < argc; ++i) {
    const std::string arg = argv[i];
    if (arg == "--block-size" && i + 1 < argc) {
      block_size = static_cast<uint32_t>(std::strtoul(argv[++i], nullptr, 10));
    } else if (arg == "--policy" && i + 1 < argc) {
      policy = argv[++i];
    } else {
      is_good = is_good && !arg.starts_with("-");
      paths.push_back(arg);
    }
  }
  const char* const data = std::getenv("KVERN_TEST_DATA");
  if (paths.empty() && data != nullptr) paths.push_back(std::string(data) + "/traces");
  if (!policy.empty() && !FindPolicy(policy).ok()) return Fail(FindPolicy(policy).status(), 2);
  if (!is_good || paths.empty() || block_size < 16 || block_size > 4096 || block_size % 16 != 0) {
    std::fprintf(stderr,
                 "usage: replay [--block-size TOKENS] [--policy NAME] [TRACE.jsonl or directory ...]\n"
                 "TOKENS: a multiple of 16, at most 4096; without a path: $KVERN_TEST_DATA/traces\n");
    return 2;
  }
  Result<std::vector<std::string>> found = TracesIn(paths);
  if (!found.ok()) return Fail(found.status());
  std::vector<std::string>& files = *found;
  std::ranges::sort(files);
  PrintHashSpeed();
  for (const std::string& file : files) {
    const Result<Trace> trace = ReadTrace(file);
    if (!trace.ok()) return Fail(trace.status());
    PrintTrace(*trace, block_size, policy);
  }
  return 0;
}

}  // namespace
}  // namespace kvern::bench

int main(int argc, char** argv) { return kvern::bench::Main(argc, argv); }
