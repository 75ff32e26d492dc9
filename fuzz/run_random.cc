// Runs a fuzz target on inputs that are the same everywhere, where there is no libFuzzer: NAME [NUMBER OF INPUTS].
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

int main(int argc, char** argv) {
  const long num_inputs = argc > 1 ? std::strtol(argv[1], nullptr, 10) : 200;
  uint32_t state = 1;  // Source: Numerical Recipes, "quick and dirty" generator.
  const auto next = [&state] { return state = state * 1664525 + 1013904223; };
  for (long i = 0; i < num_inputs; ++i) {
    std::vector<uint8_t> input(16 + (next() >> 16) % 240);
    for (uint8_t& byte : input) byte = static_cast<uint8_t>(next() >> 24);
    LLVMFuzzerTestOneInput(input.data(), input.size());
  }
  std::printf("%s: %ld inputs\n", argv[0], num_inputs);
  return 0;
}
