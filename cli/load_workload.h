// The texts of a load: conversations that are the same whenever the seed is the same.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "cli/load_plan.h"
#include "kvern/status.h"

namespace kvern::cli {

// Cuts what is said out of a text, word by word. The server's tokenizer is not known here: lengths are in bytes, by the
// bytes per token that the server counted in a first request.
class Workload {
 public:
  static constexpr size_t kMinWords = 100;

  // kInvalidArgument where `text` has too few words to be told apart.
  static Result<Workload> Create(const LoadPlan& plan, std::string_view text);

  // About `num_bytes`, to be counted by the server: begins as what the user says does, with words from all over the
  // text, as any one place may be unlike the others.
  std::string SampleText(size_t num_bytes) const;
  void SetBytesPerToken(double bytes) { bytes_per_token_ = bytes; }

  // What all conversations begin with; "" where the plan shares nothing.
  std::string SharedText() const;
  // What the user says in a turn. No two of them begin alike, so that nothing is shared by accident.
  std::string UserText(uint64_t conversation, uint32_t turn) const;

 private:
  explicit Workload(const LoadPlan& plan) : plan_(plan) {}
  // A word that the arguments choose.
  size_t PlaceAt(uint64_t conversation, uint32_t turn, uint32_t purpose) const;
  std::string NameOf(uint64_t conversation, uint32_t turn) const;
  std::string Excerpt(size_t first_word, size_t num_bytes) const;
  size_t BytesOf(uint32_t tokens) const { return static_cast<size_t>(tokens * bytes_per_token_); }

  LoadPlan plan_;
  std::vector<std::string> words_;
  double bytes_per_token_ = 4;
};

// One client's talk with the model: the history grows by what the model answers.
class Conversation {
 public:
  Conversation(const Workload& workload, const LoadPlan& plan, uint64_t id);

  uint64_t id() const { return id_; }
  uint32_t turn() const { return turn_; }
  bool has_ended() const { return turn_ == plan_.num_turns; }
  // The body of the request of this turn.
  std::string RequestBody(const std::string& model) const;
  // The answer to it; the next turn follows.
  void AddAnswer(const std::string& text);

 private:
  void AddUserText();

  const Workload& workload_;
  const LoadPlan& plan_;
  uint64_t id_;
  uint32_t turn_ = 0;
  std::string text_;                                                   // So far, without --chat.
  nlohmann::ordered_json messages_ = nlohmann::ordered_json::array();  // So far, with it.
};

// The fields that every request has besides its prompt: greedy, streamed, with the count of tokens at the end.
nlohmann::ordered_json RequestFields(const std::string& model, uint32_t max_tokens, bool is_streamed);

}  // namespace kvern::cli
