#include "cli/cache_theory.h"

namespace kvern::cli {
namespace {

uint64_t Triangle(uint64_t n) { return n * (n + 1) / 2; }
uint64_t Tetrahedron(uint64_t n) { return n * (n + 1) * (n + 2) / 6; }

}  // namespace

StepProducts LastStepProducts(uint64_t num_tokens) {
  return {num_tokens * num_tokens, 2 * num_tokens - 1, Triangle(num_tokens), num_tokens};
}

uint64_t CachedProducts(uint64_t num_tokens) { return Triangle(num_tokens); }

uint64_t UncachedProducts(uint64_t prompt_tokens, uint64_t num_tokens) {
  return Tetrahedron(num_tokens) - Tetrahedron(prompt_tokens - 1);
}

uint64_t UncachedTokens(uint64_t prompt_tokens, uint64_t num_tokens) {
  return Triangle(num_tokens) - Triangle(prompt_tokens - 1);
}

}  // namespace kvern::cli
