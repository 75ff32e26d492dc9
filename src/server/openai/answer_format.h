// The JSON of answers, whole and in pieces, as clients of the OpenAI API parse it. What may be long is text from the
// start: one thread writes to all clients, and none waits while the answer of another is turned into text.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "kvern/stats.h"
#include "kvern/token_stream.h"
#include "server/json.h"
#include "server/request_record.h"

namespace kvern::server {

enum class AnswerKind : uint8_t { kChat, kText };

// What all pieces of one reply have in common.
struct AnswerHeader {
  AnswerKind kind;
  std::string id;  // "chatcmpl-..."
  std::string model;
  int64_t created_s;
  bool is_streamed;

  // Appends {id, object, created, model, system_fingerprint, choices: [ up to the first choice.
  void Begin(std::string& out) const;
};

// "chatcmpl-" or "cmpl-" and 32 random hex digits.
std::string NewAnswerId(AnswerKind kind);

// Log probabilities of tokens, gathered until they are taken. Where they are not wanted it stays empty.
class LogprobsText {
 public:
  LogprobsText(AnswerKind kind, bool is_wanted, const Tokenizer& tokenizer)
      : kind_(kind), is_wanted_(is_wanted), tokenizer_(&tokenizer) {}
  void Add(const TokenEvent& event);
  // Appends what was added since the last call, as the value of "logprobs"; null where nothing was.
  void TakeInto(std::string& out);

  bool is_empty() const { return tokens_.empty(); }
  size_t num_bytes() const { return tokens_.size() + logprobs_.size() + tops_.size() + offsets_.size(); }

 private:
  void AddToChat(const TokenEvent& event);
  Json ChatToken(const TokenLogprob& token) const;

  AnswerKind kind_;
  bool is_wanted_;
  const Tokenizer* tokenizer_;
  uint64_t num_characters_ = 0;                     // Of all tokens so far.
  std::string tokens_, logprobs_, tops_, offsets_;  // Items of arrays. A chat has the first only.
};

// Append one of `choices`, and take what is in `logprobs`.
void AppendStreamedChoice(std::string& out, AnswerKind kind, uint32_t index, const std::string& text,
                          LogprobsText& logprobs);
void AppendFirstChoice(std::string& out, uint32_t index);  // Of a streamed chat: says whose turn it is.
void AppendLastChoice(std::string& out, AnswerKind kind, uint32_t index, const std::string& finish_reason);
void AppendWholeChoice(std::string& out, AnswerKind kind, uint32_t index, const std::string& text,
                       LogprobsText& logprobs, const std::string& finish_reason);

// "stop" or "length".
std::string FinishReasonText(FinishReason reason);

// How long it took and what was found in the cache; of several answers the sums of tokens and the longest times.
Json TimingsJson(const std::vector<RequestStats>& answers);

void AddCauses(const RequestStats& stats, PromptCauses& causes);
Json ToJson(const PromptCauses& causes);
// {position, cached, prompt}: the texts of a block from the first token that differs on. null where nothing does.
// `cached` is null where another tenant has computed that block.
Json DivergenceJson(const std::optional<PromptDivergence>& divergence, const Tokenizer& tokenizer);

struct Usage {
  uint64_t prompt_tokens = 0;
  uint64_t cached_tokens = 0;
  uint64_t completion_tokens = 0;
};
Json ToJson(const Usage& usage);

// Around the JSON of an event.
inline constexpr std::string_view kEventBegin = "data: ", kEventEnd = "\n\n";
inline constexpr std::string_view kLastEvent = "data: [DONE]\n\n";

}  // namespace kvern::server
