#include "server/openai/answer_format.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "server/random_id.h"

namespace kvern::server {
namespace {

// JSON has no minus infinity; clients of the API know this number for "never".
constexpr double kNever = -9999.0;

double Logprob(float value) { return std::isfinite(value) ? std::max(static_cast<double>(value), kNever) : kNever; }

uint64_t CountCharacters(std::string_view text) {
  return static_cast<uint64_t>(
      std::ranges::count_if(text, [](char c) { return (static_cast<uint8_t>(c) & 0xC0) != 0x80; }));
}

double Millis(uint64_t us) { return static_cast<double>(us) / 1000; }

double Ratio(double a, double b) { return b > 0 ? a / b : 0; }

void AppendItem(std::string& items, std::string_view item) {
  if (!items.empty()) items += ',';
  items += item;
}

// Appends "name":[items] and leaves nothing of them.
void MoveArray(std::string& out, std::string_view name, std::string& items) {
  out += '"';
  out += name;
  out += "\":[";
  out += items;
  out += ']';
  items = {};
}

// Appends `choice` with the two members that all choices end with. `logprobs` may be null.
void AppendChoice(std::string& out, const Json& choice, LogprobsText* logprobs, const std::string& finish_reason) {
  out += DumpJson(choice);
  out.back() = ',';  // Of the brace.
  out += "\"logprobs\":";
  if (logprobs != nullptr) {
    logprobs->TakeInto(out);
  } else {
    out += "null";
  }
  out += '}';
  AppendMember(out, "finish_reason", finish_reason.empty() ? "null" : DumpJson(finish_reason));
}

}  // namespace

void AnswerHeader::Begin(std::string& out) const {
  const char* object = kind == AnswerKind::kText ? "text_completion"
                       : is_streamed             ? "chat.completion.chunk"
                                                 : "chat.completion";
  out += DumpJson(
      {{"id", id}, {"object", object}, {"created", created_s}, {"model", model}, {"system_fingerprint", "kvern"}});
  out.back() = ',';  // Of the brace.
  out += "\"choices\":[";
}

std::string NewAnswerId(AnswerKind kind) {
  return (kind == AnswerKind::kChat ? "chatcmpl-" : "cmpl-") + RandomHex128();
}

void LogprobsText::Add(const TokenEvent& event) {
  if (!is_wanted_ || event.token < 0) return;
  if (kind_ == AnswerKind::kChat) return AddToChat(event);
  const std::string text = tokenizer_->TokenBytes(event.token, /*render_special=*/true);
  Json top = Json::object();
  for (const TokenLogprob& token : event.top_logprobs) {
    // Two tokens may have the same text; the likelier one stays.
    top.emplace(tokenizer_->TokenBytes(token.token, /*render_special=*/true), Logprob(token.logprob));
  }
  AppendItem(tokens_, DumpJson(text));
  AppendItem(logprobs_, DumpJson(Logprob(event.logprob)));
  AppendItem(tops_, DumpJson(top));
  AppendItem(offsets_, std::to_string(num_characters_));
  num_characters_ += CountCharacters(text);
}

void LogprobsText::AddToChat(const TokenEvent& event) {
  Json entry = ChatToken({event.token, event.logprob});
  Json& top = entry["top_logprobs"] = Json::array();
  for (const TokenLogprob& token : event.top_logprobs) top.push_back(ChatToken(token));
  AppendItem(tokens_, DumpJson(entry));
}

// `token` is text and may lack bytes of a character that two tokens share; `bytes` has them all.
Json LogprobsText::ChatToken(const TokenLogprob& token) const {
  const std::string text = tokenizer_->TokenBytes(token.token, /*render_special=*/true);
  Json bytes = Json::array();
  for (const char c : text) bytes.push_back(static_cast<uint8_t>(c));
  return {{"token", text}, {"logprob", Logprob(token.logprob)}, {"bytes", std::move(bytes)}};
}

void LogprobsText::TakeInto(std::string& out) {
  if (is_empty()) {
    out += "null";
    return;
  }
  out += '{';
  if (kind_ == AnswerKind::kChat) {
    MoveArray(out, "content", tokens_);
    out += ",\"refusal\":null}";
    return;
  }
  MoveArray(out, "tokens", tokens_);
  out += ',';
  MoveArray(out, "token_logprobs", logprobs_);
  out += ',';
  MoveArray(out, "top_logprobs", tops_);
  out += ',';
  MoveArray(out, "text_offset", offsets_);
  out += '}';
}

void AppendStreamedChoice(std::string& out, AnswerKind kind, uint32_t index, const std::string& text,
                          LogprobsText& logprobs) {
  if (kind == AnswerKind::kText) return AppendChoice(out, {{"text", text}, {"index", index}}, &logprobs, "");
  AppendChoice(out, {{"index", index}, {"delta", {{"content", text}}}}, &logprobs, "");
}

void AppendFirstChoice(std::string& out, uint32_t index) {
  AppendChoice(out, {{"index", index}, {"delta", {{"role", "assistant"}, {"content", ""}}}}, nullptr, "");
}

void AppendLastChoice(std::string& out, AnswerKind kind, uint32_t index, const std::string& finish_reason) {
  if (kind == AnswerKind::kText) return AppendChoice(out, {{"text", ""}, {"index", index}}, nullptr, finish_reason);
  AppendChoice(out, {{"index", index}, {"delta", Json::object()}}, nullptr, finish_reason);
}

void AppendWholeChoice(std::string& out, AnswerKind kind, uint32_t index, const std::string& text,
                       LogprobsText& logprobs, const std::string& finish_reason) {
  if (kind == AnswerKind::kText) {
    return AppendChoice(out, {{"text", text}, {"index", index}}, &logprobs, finish_reason);
  }
  const Json message = {{"role", "assistant"}, {"content", text}, {"refusal", nullptr}};
  AppendChoice(out, {{"index", index}, {"message", message}}, &logprobs, finish_reason);
}

std::string FinishReasonText(FinishReason reason) { return reason == FinishReason::kLength ? "length" : "stop"; }

Json TimingsJson(const std::vector<RequestStats>& answers) {
  uint64_t prompt_n = 0, cache_n = 0, predicted_n = 0, intervals = 0;
  uint64_t queue_us = 0, prefill_us = 0, decode_us = 0;
  PromptCauses causes;
  for (const RequestStats& stats : answers) {
    AddCauses(stats, causes);
    cache_n += stats.prompt_tokens_reused;
    prompt_n += stats.prompt_tokens - std::min(stats.prompt_tokens, stats.prompt_tokens_reused);
    predicted_n += stats.generated_tokens;
    intervals += stats.generated_tokens > 0 ? stats.generated_tokens - 1 : 0;  // The first comes with the prompt.
    queue_us = std::max(queue_us, stats.queue_us);
    prefill_us = std::max(prefill_us, stats.prefill_us);
    decode_us = std::max(decode_us, stats.decode_us);
  }
  const auto prompt = static_cast<double>(prompt_n), predicted = static_cast<double>(intervals);
  const double prompt_ms = Millis(prefill_us), predicted_ms = Millis(decode_us);
  return {{"cache_n", cache_n},
          {"prompt_n", prompt_n},
          {"prompt_ms", prompt_ms},
          {"prompt_per_token_ms", Ratio(prompt_ms, prompt)},
          {"prompt_per_second", 1000 * Ratio(prompt, prompt_ms)},
          {"predicted_n", predicted_n},
          {"predicted_ms", predicted_ms},
          {"predicted_per_token_ms", Ratio(predicted_ms, predicted)},
          {"predicted_per_second", 1000 * Ratio(predicted, predicted_ms)},
          {"queue_ms", Millis(queue_us)},
          {"prompt_causes", ToJson(causes)}};
}

void AddCauses(const RequestStats& stats, PromptCauses& causes) {
  causes.found += stats.prompt_tokens_found;
  causes.first_time += stats.prompt_tokens_first_time;
  causes.evicted += stats.prompt_tokens_evicted;
  causes.diverged += stats.prompt_tokens_diverged;
  causes.last_token += stats.prompt_tokens_last;
}

Json DivergenceJson(const std::optional<PromptDivergence>& divergence, const Tokenizer& tokenizer) {
  if (!divergence.has_value()) return nullptr;
  const auto text_from = [&](const std::vector<TokenId>& tokens) -> Json {
    if (tokens.empty()) return nullptr;  // Another tenant's.
    const auto begin = std::min<size_t>(divergence->position - divergence->block_begin, tokens.size());
    return tokenizer.Decode({tokens.begin() + static_cast<std::ptrdiff_t>(begin), tokens.end()},
                            /*render_special=*/true);
  };
  return {{"position", divergence->position},
          {"cached", text_from(divergence->tokens)},
          {"prompt", text_from(divergence->prompt)}};
}

Json ToJson(const PromptCauses& causes) {
  return {{"found", causes.found},
          {"first_time", causes.first_time},
          {"evicted", causes.evicted},
          {"diverged", causes.diverged},
          {"last_token", causes.last_token}};
}

Json ToJson(const Usage& usage) {
  return {{"prompt_tokens", usage.prompt_tokens},
          {"completion_tokens", usage.completion_tokens},
          {"total_tokens", usage.prompt_tokens + usage.completion_tokens},
          {"prompt_tokens_details", {{"cached_tokens", usage.cached_tokens}}}};
}

}  // namespace kvern::server
