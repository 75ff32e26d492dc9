// How fast text becomes token ids, and how long a tokenizer takes to build.
// The BPE vocabulary comes from the model at $KVERN_MODEL, the SPM one from $KVERN_TEST_DATA/tokenizers; what is not
// set is left out.
#include <benchmark/benchmark.h>

#include <cstdlib>
#include <iostream>
#include <string>

#include "engine/vocab_from_gguf.h"
#include "platform/file_system.h"

namespace {

using kvern::VocabData;

constexpr size_t kMegabyte = size_t{1} << 20;

VocabData LoadVocab(const std::string& path) {
  auto file = kvern::GgufFile::Open(kvern::PosixFileSystem(), path);
  auto vocab = file.ok() ? kvern::VocabFromGguf(*file) : kvern::Result<VocabData>(file.status());
  if (!vocab.ok()) {
    std::cerr << vocab.status().ToString() << "\n";
    std::exit(1);
  }
  return std::move(*vocab);
}

std::string Repeat(const std::string& unit) {
  std::string text;
  while (text.size() < kMegabyte) text += unit;
  return text;
}

// Words of 1 to 12 letters from a fixed sequence, with punctuation and line ends: the pieces of ordinary text.
std::string Prose() {
  std::string text;
  uint64_t state = 1;
  const auto next = [&state](uint64_t limit) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (state >> 33) % limit;
  };
  constexpr const char* kWords[] = {"the",   "of",       "model",   "cache",  "and", "attention", "a",
                                    "token", "sequence", "in",      "memory", "is",  "blocks",    "prefix",
                                    "that",  "evicted",  "quickly", "2026",   "it's"};
  while (text.size() < kMegabyte) {
    text += kWords[next(std::size(kWords))];
    text += next(12) == 0 ? ".\n" : next(10) == 0 ? ", " : " ";
    if (next(20) == 0) {
      for (uint64_t i = next(12) + 1; i > 0; --i) text += static_cast<char>('a' + next(26));
    }
  }
  return text;
}

void Construct(benchmark::State& state, const VocabData& vocab) {
  for (auto _ : state) {
    state.PauseTiming();
    VocabData copy = vocab;
    state.ResumeTiming();
    auto tokenizer = kvern::MakeTokenizer(std::move(copy));
    benchmark::DoNotOptimize(tokenizer);
    state.PauseTiming();
    tokenizer = kvern::Status::Cancelled("");
    state.ResumeTiming();
  }
}

void Encode(benchmark::State& state, const kvern::Tokenizer& tokenizer, const std::string& text) {
  size_t num_tokens = 0;
  for (auto _ : state) {
    auto ids = tokenizer.Encode(text);
    if (!ids.ok()) {
      state.SkipWithError(ids.status().ToString().c_str());
      break;
    }
    num_tokens = ids->size();
    benchmark::DoNotOptimize(ids);
  }
  state.SetBytesProcessed(static_cast<int64_t>(state.iterations() * text.size()));
  state.counters["tokens"] = static_cast<double>(num_tokens);
}

void Register(const std::string& name, const std::string& path) {
  // Registered benchmarks run until the process ends, so what they use lives as long.
  const auto* vocab = new VocabData(LoadVocab(path));
  benchmark::RegisterBenchmark(("construct/" + name).c_str(), [vocab](benchmark::State& state) {
    Construct(state, *vocab);
  })->Unit(benchmark::kMillisecond);
  auto tokenizer = kvern::MakeTokenizer(*vocab);
  if (!tokenizer.ok()) {
    std::cerr << tokenizer.status().ToString() << "\n";
    std::exit(1);
  }
  const kvern::Tokenizer* borrowed = tokenizer->release();
  const std::pair<const char*, std::string> texts[] = {
      {"letters", Repeat("a")}, {"spaces", Repeat(" ")}, {"emoji", Repeat("\U0001F600")}, {"prose", Prose()}};
  for (const auto& [kind, text] : texts) {
    benchmark::RegisterBenchmark(("encode_1MiB_" + std::string(kind) + "/" + name).c_str(),
                                 [borrowed, text = text](benchmark::State& state) { Encode(state, *borrowed, text); })
        ->Unit(benchmark::kMillisecond);
  }
  benchmark::RegisterBenchmark(("encode_24_bytes/" + name).c_str(), [borrowed](benchmark::State& state) {
    Encode(state, *borrowed, "The capital of France is");
  })->Unit(benchmark::kMicrosecond);
}

}  // namespace

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  if (const char* model = std::getenv("KVERN_MODEL")) {
    Register("model", model);
  } else {
    std::cerr << "KVERN_MODEL is not set: no benchmarks of a model file's vocabulary\n";
  }
  if (const char* data = std::getenv("KVERN_TEST_DATA")) {
    Register("llama-spm", std::string(data) + "/tokenizers/ggml-vocab-llama-spm.gguf");
  } else {
    std::cerr << "KVERN_TEST_DATA is not set: no benchmarks of the llama-spm vocabulary\n";
  }
  benchmark::RunSpecifiedBenchmarks();
}
