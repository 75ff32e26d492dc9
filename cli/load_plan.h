// What kvern bench serve asks of a server, and when.
#pragma once

#include <cstdint>
#include <random>

#include "kvern/status.h"

namespace kvern::cli {

struct LoadPlan {
  uint32_t num_requests = 0;  // All clients together; 0: as many as the time allows.
  double duration_s = 0;      // After it nothing new is asked; 0: no limit.
  uint32_t num_clients = 8;   // Conversations at once. With `rate`, arrivals beyond them wait, and their wait counts.
  double rate = 0;            // Conversations that arrive per second (open loop); 0: the next one begins when one ends.
  uint32_t prompt_tokens = 128;  // Of what the user says in each turn.
  uint32_t shared_tokens = 0;    // Of the system prompt that all conversations begin with.
  uint32_t max_tokens = 64;      // Of each answer.
  uint32_t num_turns = 1;        // Requests of a conversation, each with the history before it.
  uint64_t seed = 0;             // Of texts, arrivals and hang-ups.
  double disconnect_share = 0;   // Requests that are hung up at a random time, of all.
  bool is_chat = false;          // /v1/chat/completions instead of /v1/completions.

  // kInvalidArgument names the option.
  Status Validate() const;
};

// A number in [0, 1) that depends on the arguments alone.
double UniformAt(uint64_t seed, uint64_t conversation, uint32_t turn, uint32_t purpose);

// The times of a Poisson process: gaps are independent and exponential with mean 1 / rate.
class PoissonArrivals {
 public:
  PoissonArrivals(double rate, uint64_t seed) : rate_(rate), generator_(seed) {}
  // Seconds after the begin, ascending.
  double NextS();

 private:
  double rate_;
  double last_s_ = 0;
  std::mt19937_64 generator_;
};

}  // namespace kvern::cli
