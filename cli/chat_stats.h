// What the turns of a chat have cost, and what each found of the turn before.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "cli/chat_session.h"
#include "kvern/stats.h"

namespace kvern::cli {

class ChatStats {
 public:
  // A turn that is done. `change`: how its prompt continued the turn before, if there was one.
  void Add(const RequestStats& turn, std::optional<PromptChange> change);
  // Lines for people, each with its end. `context_tokens`: the longest conversation.
  std::string Text(uint64_t context_tokens) const;

 private:
  struct Sums {
    uint64_t turns = 0;
    uint64_t prompt_tokens = 0;
    uint64_t found = 0;  // In the cache.
    uint64_t computed = 0;
    uint64_t generated = 0;
    uint64_t first_token_us = 0;  // From Submit to the first token.
    uint64_t timed_tokens = 0;    // Generated after the first, which belongs to the prompt,
    uint64_t decode_us = 0;       // in this time.
    std::string Text(const char* name) const;
  };

  static void AddTo(Sums& sums, const RequestStats& turn);

  Sums last_;
  Sums total_;
  std::optional<PromptChange> change_;  // Of the last turn.
};

}  // namespace kvern::cli
