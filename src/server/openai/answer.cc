#include "server/openai/answer.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "server/random_id.h"

namespace kvern::server {
namespace {

// Of a piece of a stream; what is more waits with the engine until the client has taken this much.
constexpr size_t kPieceBytes = 16u << 10;

struct Choice {
  TokenStream stream;
  uint32_t index;   // Of all choices of the request.
  uint32_t prompt;  // Whose answer it is.
  LogprobsText logprobs;
  std::string text = {};  // So far, where the answer is sent as a whole.
  std::string whole_text = {};
  std::vector<TokenId> tokens = {};
  bool is_begun = false;
  bool is_ended = false;
};

uint64_t MicrosSince(std::chrono::steady_clock::time_point begin) {
  return static_cast<uint64_t>(
      std::chrono::duration_cast<std::chrono::microseconds>(std::chrono::steady_clock::now() - begin).count());
}

class AnswerSource : public ReplySource {
 public:
  // What `context` refers to besides the request must outlive it.
  AnswerSource(AnswerHeader header, const AnswerOptions& options, const RouteContext& context,
               std::vector<EncodedPrompt> prompts, std::vector<Choice> choices, TenantSlots::Slot slot)
      : header_(std::move(header)),
        includes_usage_(options.includes_usage),
        reuses_generated_(options.reuses_generated),
        tokenizer_(context.model->engine.tokenizer()),
        generated_(context.generated),
        salt_(context.tenant.cache_group),
        prompts_(std::move(prompts)),
        choices_(std::move(choices)),
        slot_(std::move(slot)),
        record_(context.record) {}
  ~AnswerSource() override { FillRecord(); }

  void OnReady(std::function<void()> wake) override {
    for (Choice& choice : choices_) choice.stream.OnReady(wake);
  }
  void Stop() override {
    for (Choice& choice : choices_) choice.stream.Cancel();
  }
  bool Read(HttpResponse& response) override;

 private:
  // Takes what has come for `choice`. False where its answer failed: `response` tells the client.
  bool ReadChoice(Choice& choice, HttpResponse& response);
  bool Fail(const Status& status, HttpResponse& response);
  // Around the choice of an event; `ended`: the one whose last piece it is.
  void BeginChunk(std::string& out) const;
  void EndChunk(std::string& out, const Choice* ended = nullptr) const;
  void AppendWhole(std::string& out);
  // `choice`: where its prompt differs from what was cached.
  void AddTimings(std::string& out, const std::vector<RequestStats>& stats, const Choice& choice) const;
  void Remember(const Choice& choice);
  // With reuse_generated: which ids the prompt became, since an answer is exact for ids.
  void AddReuse(std::string& out, const EncodedPrompt& prompt) const;
  Usage CountUsage() const;
  void FillRecord();

  const AnswerHeader header_;
  const bool includes_usage_;
  const bool reuses_generated_;
  const Tokenizer& tokenizer_;
  GeneratedTexts& generated_;
  const std::string salt_;
  const std::vector<EncodedPrompt> prompts_;
  std::vector<Choice> choices_;
  const TenantSlots::Slot slot_;
  const std::shared_ptr<RequestRecord> record_;
};

bool AnswerSource::Read(HttpResponse& response) {
  for (Choice& choice : choices_) {
    if (choice.is_ended) continue;
    if (!ReadChoice(choice, response)) return true;
    if (response.body.size() >= kPieceBytes) return false;
  }
  if (!std::ranges::all_of(choices_, &Choice::is_ended)) return false;
  if (!header_.is_streamed) {
    AppendWhole(response.body);
    return true;
  }
  if (includes_usage_) {
    BeginChunk(response.body);
    response.body += "]}";
    AppendMember(response.body, "usage", DumpJson(ToJson(CountUsage())));
    response.body += kEventEnd;
  }
  response.body += kLastEvent;
  return true;
}

bool AnswerSource::ReadChoice(Choice& choice, HttpResponse& response) {
  if (header_.is_streamed && header_.kind == AnswerKind::kChat && !choice.is_begun) {
    BeginChunk(response.body);
    AppendFirstChoice(response.body, choice.index);
    EndChunk(response.body);
  }
  choice.is_begun = true;
  bool has_events = false;
  while (!header_.is_streamed || choice.text.size() + choice.logprobs.num_bytes() < kPieceBytes) {
    std::optional<TokenEvent> event = choice.stream.Poll();
    if (!event.has_value()) break;
    has_events = true;
    if (!record_->first_token_us.has_value()) record_->first_token_us = MicrosSince(record_->begin);
    choice.text += event->text;
    choice.whole_text += event->text;
    if (event->token >= 0) choice.tokens.push_back(event->token);
    choice.logprobs.Add(*event);
  }
  if (header_.is_streamed && has_events) {
    const std::string text = std::exchange(choice.text, {});
    // Text may wait until it is certain; then there is nothing to say.
    if (!text.empty() || !choice.logprobs.is_empty()) {
      BeginChunk(response.body);
      AppendStreamedChoice(response.body, header_.kind, choice.index, text, choice.logprobs);
      EndChunk(response.body);
    }
  }
  if (!choice.stream.is_done()) return true;
  choice.is_ended = true;
  if (!choice.stream.status().ok()) return !Fail(choice.stream.status(), response);
  if (choice.stream.finish_reason() == FinishReason::kCancelled) return !Fail(Status::Cancelled(""), response);
  Remember(choice);
  if (header_.is_streamed) {
    const std::string reason = FinishReasonText(choice.stream.finish_reason());
    BeginChunk(response.body);
    AppendLastChoice(response.body, header_.kind, choice.index, reason);
    EndChunk(response.body, &choice);
  }
  return true;
}

// What a later prompt may go on from. A stop text is not part of the answer, but its tokens are.
void AnswerSource::Remember(const Choice& choice) {
  const EncodedPrompt& prompt = prompts_[choice.prompt];
  if (prompt.text.empty() || choice.stream.finish_reason() == FinishReason::kStopString) return;
  std::vector<TokenId> tokens;
  tokens.reserve(prompt.tokens.size() + choice.tokens.size());
  tokens.insert(tokens.end(), prompt.tokens.begin(), prompt.tokens.end());
  tokens.insert(tokens.end(), choice.tokens.begin(), choice.tokens.end());
  generated_.Add(salt_, prompt.text + choice.whole_text, std::move(tokens));
}

void AnswerSource::AddReuse(std::string& out, const EncodedPrompt& prompt) const {
  if (!reuses_generated_) return;
  AppendMember(out, "reused_ids", std::to_string(prompt.num_reused_ids));
  AppendMember(out, "prompt_token_ids", DumpJson(prompt.tokens));
}

// Ends the whole reply: the other choices are cancelled with it.
bool AnswerSource::Fail(const Status& status, HttpResponse& response) {
  const ApiError error = FromEngine(status, "");
  record_->error = error.message;
  record_->finish_reason = "error";
  if (header_.is_streamed) {
    response.body += kEventBegin;
    response.body += DumpJson(ToJson(error));
    response.body += kEventEnd;
  } else {
    HttpResponse failed = ToResponse(error);
    response.status = failed.status;
    response.body = std::move(failed.body);
    if (error.retry_after_s > 0) response.headers.push_back({"Retry-After", std::to_string(error.retry_after_s)});
  }
  return true;
}

void AnswerSource::BeginChunk(std::string& out) const {
  out += kEventBegin;
  header_.Begin(out);
}

void AnswerSource::EndChunk(std::string& out, const Choice* ended) const {
  out += "]}";
  if (includes_usage_) AppendMember(out, "usage", "null");  // It comes with the last chunk.
  if (ended != nullptr) {
    AddTimings(out, {ended->stream.stats()}, *ended);
    AddReuse(out, prompts_[ended->prompt]);
  }
  out += kEventEnd;
}

void AnswerSource::AppendWhole(std::string& out) {
  std::vector<RequestStats> stats;
  header_.Begin(out);
  for (Choice& choice : choices_) {
    if (!stats.empty()) out += ',';
    stats.push_back(choice.stream.stats());
    AppendWholeChoice(out, header_.kind, choice.index, choice.text, choice.logprobs,
                      FinishReasonText(choice.stream.finish_reason()));
  }
  out += "]}";
  AppendMember(out, "usage", DumpJson(ToJson(CountUsage())));
  AddTimings(out, stats, choices_.front());
  AddReuse(out, prompts_.front());
}

void AnswerSource::AddTimings(std::string& out, const std::vector<RequestStats>& stats, const Choice& choice) const {
  Json timings = TimingsJson(stats);
  timings["divergence"] = DivergenceJson(choice.stream.divergence(), tokenizer_);
  AppendMember(out, "timings", DumpJson(timings));
}

// A prompt counts once, however many answers it gets; what one of them computed, the others find.
Usage AnswerSource::CountUsage() const {
  Usage usage;
  for (size_t i = 0; i < choices_.size(); ++i) {
    const RequestStats stats = choices_[i].stream.stats();
    usage.completion_tokens += stats.generated_tokens;
    if (i > 0 && choices_[i].prompt == choices_[i - 1].prompt) continue;
    uint64_t cached_tokens = stats.prompt_tokens_reused;
    for (const Choice& other : choices_) {
      if (other.prompt == choices_[i].prompt) {
        cached_tokens = std::min(cached_tokens, other.stream.stats().prompt_tokens_reused);
      }
    }
    usage.prompt_tokens += prompts_[choices_[i].prompt].tokens.size();  // Of the engine only after the first token.
    usage.cached_tokens += cached_tokens;
  }
  return usage;
}

void AnswerSource::FillRecord() {
  RequestRecord& record = *record_;
  const Usage usage = CountUsage();
  record.prompt_tokens = usage.prompt_tokens;
  record.cached_tokens = usage.cached_tokens;
  record.generated_tokens = usage.completion_tokens;
  for (const Choice& choice : choices_) {
    const RequestStats stats = choice.stream.stats();
    record.queue_us = std::max(record.queue_us, stats.queue_us);
    record.prefill_us = std::max(record.prefill_us, stats.prefill_us);
    record.decode_us = std::max(record.decode_us, stats.decode_us);
    AddCauses(stats, record.causes);
  }
  record.divergence = DivergenceJson(choices_.front().stream.divergence(), tokenizer_);
  if (!record.finish_reason.empty()) return;
  const bool is_ended = std::ranges::all_of(choices_, &Choice::is_ended);
  record.finish_reason = is_ended ? FinishReasonText(choices_.front().stream.finish_reason()) : "cancelled";
}

std::optional<ApiError> CheckAgainstModel(const ServedModel& model, const AnswerOptions& options,
                                          const std::vector<EncodedPrompt>& prompts) {
  const EngineOptions& engine = model.engine.options();
  if (options.num_choices > engine.max_sequences) {
    return ApiError{.message = "n: is " + std::to_string(options.num_choices) + ", this server runs at most " +
                               std::to_string(engine.max_sequences) + " answers at once",
                    .param = "n"};
  }
  for (const EncodedPrompt& prompt : prompts) {
    if (prompt.tokens.empty()) {
      return ApiError{.message = prompt.path + ": has no tokens, expected at least one", .param = prompt.path};
    }
    if (prompt.tokens.size() > engine.context_tokens) {
      return ApiError{.message = prompt.path + ": has " + std::to_string(prompt.tokens.size()) +
                                 " tokens, more than the context of " + std::to_string(engine.context_tokens),
                      .param = prompt.path,
                      .code = "context_length_exceeded"};
    }
  }
  return std::nullopt;
}

// The field of ours that a message of the engine speaks about.
std::string ParameterOf(const Status& status, const std::string& prompt_path) {
  for (const char* name : {"logit_bias", "stop", "temperature", "top_p", "min_p"}) {
    if (status.message().starts_with(name)) return name;
  }
  return prompt_path;
}

}  // namespace

std::optional<ApiError> CheckModelName(const ServedModel& model, const std::string& name) {
  if (name.empty() || name == model.id) return std::nullopt;
  return ApiError{.status = 404,
                  .message = "model: there is no model " + ShowJson(name) + ", this server has " + ShowJson(model.id),
                  .param = "model",
                  .code = "model_not_found"};
}

std::optional<ApiError> CheckTextBytes(const ServedModel& model, uint64_t num_bytes, const std::string& path) {
  const uint64_t context_tokens = model.engine.options().context_tokens;
  if (num_bytes / model.max_token_bytes <= context_tokens) return std::nullopt;
  return ApiError{.message = path + ": is a text of " + std::to_string(num_bytes) +
                             " bytes, which has more tokens than the context of " + std::to_string(context_tokens),
                  .param = path,
                  .code = "context_length_exceeded"};
}

std::variant<EncodedPrompt, ApiError> EncodePrompt(const RouteContext& context, const AnswerOptions& answer,
                                                   std::string text, std::string path, bool adds_special) {
  const ServedModel& model = *context.model;
  if (auto error = CheckTextBytes(model, text.size(), path)) return std::move(*error);
  EncodedPrompt prompt;
  size_t num_bytes = 0;
  if (answer.reuses_generated) {
    if (auto beginning = context.generated.Find(context.tenant.cache_group, text)) {
      num_bytes = beginning->num_bytes;
      prompt.tokens = std::move(beginning->tokens);
      prompt.num_reused_ids = prompt.tokens.size();
    }
  }
  auto rest = model.engine.tokenizer().Encode(std::string_view(text).substr(num_bytes),
                                              {.add_special = adds_special && num_bytes == 0, .parse_special = true});
  if (!rest.ok()) return ApiError{.message = path + ": " + rest.status().message(), .param = path};
  prompt.tokens.insert(prompt.tokens.end(), rest->begin(), rest->end());
  prompt.path = std::move(path);
  prompt.text = std::move(text);
  return prompt;
}

HttpReply StartAnswer(RouteContext& context, AnswerKind kind, const AnswerOptions& options,
                      std::vector<EncodedPrompt> prompts, uint32_t default_max_tokens) {
  const ServedModel& model = *context.model;
  if (const auto error = CheckAgainstModel(model, options, prompts)) return ReplyWith(context, *error);
  Result<TenantSlots::Slot> slot = context.slots.Acquire(
      context.tenant.name, options.num_choices * static_cast<uint32_t>(prompts.size()));  // Both at most 128.
  if (!slot.ok()) return ReplyWith(context, FromEngine(slot.status(), ""));

  Request request;
  request.max_tokens = options.max_tokens.value_or(default_max_tokens);
  request.sampling = options.sampling;
  if (!options.has_seed) request.sampling.seed = RandomBits64();
  request.stop = options.stop;
  request.ends_at_eos = options.ends_at_eos;
  request.wants_logprobs = options.wants_logprobs;
  request.num_top_logprobs = options.num_top_logprobs;
  request.tenant = context.tenant.name;
  request.cache_salt = context.tenant.cache_group;
  request.keep_seconds = options.keep_seconds;
  std::vector<Choice> choices;
  for (uint32_t p = 0; p < prompts.size(); ++p) {
    request.prompt = prompts[p].tokens;
    auto streams = model.engine.SubmitChoices(request, options.num_choices);
    if (!streams.ok()) {
      return ReplyWith(context, FromEngine(streams.status(), ParameterOf(streams.status(), prompts[p].path)));
    }
    for (TokenStream& stream : *streams) {
      const auto index = static_cast<uint32_t>(choices.size());
      choices.push_back({.stream = std::move(stream),
                         .index = index,
                         .prompt = p,
                         .logprobs = LogprobsText(kind, options.wants_logprobs, model.engine.tokenizer())});
    }
  }
  context.record->generates = true;
  context.record->is_streamed = options.is_streamed;

  const auto now = std::chrono::system_clock::now().time_since_epoch();
  AnswerHeader header = {.kind = kind,
                         .id = NewAnswerId(kind),
                         .model = model.id,
                         .created_s = std::chrono::duration_cast<std::chrono::seconds>(now).count(),
                         .is_streamed = options.is_streamed};
  HttpReply reply;
  reply.is_event_stream = options.is_streamed;
  if (options.is_streamed) {
    reply.response.headers = {{"Content-Type", "text/event-stream; charset=utf-8"},
                              {"Cache-Control", "no-cache"},
                              {"X-Accel-Buffering", "no"}};  // Proxies: pass pieces on as they come.
  } else {
    reply.response.headers = {{"Content-Type", "application/json"}};
  }
  reply.source = std::make_unique<AnswerSource>(std::move(header), options, context, std::move(prompts),
                                                std::move(choices), std::move(*slot));
  return reply;
}

}  // namespace kvern::server
