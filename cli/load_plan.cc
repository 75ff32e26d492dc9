#include "cli/load_plan.h"

#include <cmath>

namespace kvern::cli {
namespace {

// The 53 high bits as a number in [0, 1): the library's distributions differ between implementations.
double ToUnit(uint64_t bits) { return static_cast<double>(bits >> 11) * 0x1p-53; }

// splitmix64.
uint64_t Mix(uint64_t x) {
  x += 0x9E3779B97F4A7C15u;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
  return x ^ (x >> 31);
}

}  // namespace

Status LoadPlan::Validate() const {
  const auto refuse = [](const char* option, const std::string& message) {
    return Status::InvalidArgument(std::string(option) + " " + message);
  };
  if (!(rate >= 0 && rate <= 1e5)) return refuse("--rate", "must be from 0 to 100000 a second");
  if (!(duration_s >= 0 && duration_s <= 1e6)) return refuse("--duration", "must be from 0 to 1000000 seconds");
  if (!(disconnect_share >= 0 && disconnect_share <= 1)) return refuse("--disconnect-share", "must be from 0 to 1");
  if (num_clients < 1 || num_clients > 10'000) return refuse("--clients", "must be from 1 to 10000");
  if (num_turns < 1 || num_turns > 1000) return refuse("--turns", "must be from 1 to 1000");
  if (max_tokens < 1) return refuse("--max-tokens", "must be at least 1");
  if (prompt_tokens < 1 || prompt_tokens > 1u << 20) return refuse("--prompt-tokens", "must be from 1 to 1048576");
  if (shared_tokens > 1u << 20) return refuse("--shared-tokens", "must be at most 1048576");
  if (num_requests == 0 && duration_s == 0) return refuse("--requests", "or --duration must be above 0");
  return Status::Ok();
}

double UniformAt(uint64_t seed, uint64_t conversation, uint32_t turn, uint32_t purpose) {
  return ToUnit(Mix(Mix(Mix(seed) ^ conversation) ^ ((uint64_t{turn} << 32) | purpose)));
}

double PoissonArrivals::NextS() {
  last_s_ += -std::log1p(-ToUnit(generator_())) / rate_;
  return last_s_;
}

}  // namespace kvern::cli
