#include "cli/chat_stats.h"

#include <limits>
#include <utility>

#include "cli/format.h"

namespace kvern::cli {
namespace {

std::string ChangeText(const std::optional<PromptChange>& change) {
  if (!change.has_value()) return "there was no turn before it";
  if (change->is_continued()) {
    return "it goes on, token for token, where the turn before it ended (token " + FormatCount(change->known_tokens) +
           ")";
  }
  return "it departs from the turn before it at token " + FormatCount(change->common_tokens) + " of " +
         FormatCount(change->known_tokens) + ": \"" + EscapeBytes(change->text) + "\" where \"" +
         EscapeBytes(change->known_text) + "\" was";
}

}  // namespace

void ChatStats::AddTo(Sums& sums, const RequestStats& turn) {
  ++sums.turns;
  sums.prompt_tokens += turn.prompt_tokens;
  sums.found += turn.prompt_tokens_found;
  sums.computed += turn.prompt_tokens_computed;
  sums.generated += turn.generated_tokens;
  sums.first_token_us += turn.queue_us + turn.prefill_us;
  sums.timed_tokens += turn.generated_tokens > 0 ? turn.generated_tokens - 1 : 0;
  sums.decode_us += turn.decode_us;
}

void ChatStats::Add(const RequestStats& turn, std::optional<PromptChange> change) {
  last_ = {};
  AddTo(last_, turn);
  AddTo(total_, turn);
  change_ = std::move(change);
}

std::string ChatStats::Sums::Text(const char* name) const {
  const double rate = decode_us == 0 ? 0.0 : 1e6 * static_cast<double>(timed_tokens) / static_cast<double>(decode_us);
  return std::string(name) + ": " + FormatCount(prompt_tokens) + " prompt tokens, " + FormatCount(found) +
         " found in the cache, " + FormatCount(computed) + " computed; first token after " +
         FormatSeconds(first_token_us / turns) + (turns > 1 ? " (mean)" : "") + "; " + FormatCount(generated) +
         " tokens at " + FormatRate(rate) + " tok/s\n";
}

std::string ChatStats::Text(uint64_t context_tokens) const {
  if (total_.turns == 0) return "no answer yet\n";
  std::string text = last_.Text("last turn");
  text += total_.Text(FormatCountOf(total_.turns, "turn").c_str());
  text += "last prompt: " + ChangeText(change_) + "\n";
  text += "context at the end of the last turn: " + FormatCount(last_.prompt_tokens + last_.generated);
  // A window may leave the length of a conversation without limit.
  if (context_tokens < std::numeric_limits<uint32_t>::max() / 2) text += " of " + FormatCount(context_tokens);
  return text + " tokens\n";
}

}  // namespace kvern::cli
