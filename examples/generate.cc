// The shortest program on libkvern: one prompt in, text out as it comes, the counters at the end.
//   generate model.gguf "The capital of France is" [num_tokens]
#include <cstdlib>
#include <iostream>

#include "kvern/engine.h"

int main(int argc, char** argv) {
  if (argc < 3) return std::cerr << "usage: generate MODEL PROMPT [NUM_TOKENS]\n", 2;

  kvern::EngineOptions options;
  options.model_path = argv[1];
  auto engine = kvern::Engine::Open(options);
  if (!engine.ok()) return std::cerr << engine.status().ToString() << "\n", 1;

  auto prompt = (*engine)->tokenizer().Encode(argv[2]);
  if (!prompt.ok()) return std::cerr << prompt.status().ToString() << "\n", 1;

  kvern::Request request{.prompt = *prompt};
  request.max_tokens = argc > 3 ? static_cast<uint32_t>(std::atoi(argv[3])) : 32;
  auto stream = (*engine)->Submit(request);
  if (!stream.ok()) return std::cerr << stream.status().ToString() << "\n", 1;

  while (auto event = stream->Next()) std::cout << event->text << std::flush;
  std::cout << "\n";

  const kvern::RequestStats stats = stream->stats();
  std::cerr << stats.generated_tokens << " tokens, " << stats.tokens_computed << " computed, " << stats.tokens_reused
            << " reused, " << stats.kv_bytes << " bytes of KV\n";
  return stream->status().ok() ? 0 : 1;
}
