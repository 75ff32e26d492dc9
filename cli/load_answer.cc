#include "cli/load_answer.h"

#include <utility>

#include "cli/format.h"
#include "cli/json_fields.h"

namespace kvern::cli {
namespace {

using server::Json;

constexpr size_t kMaxMessageBytes = 300;
constexpr size_t kMaxBodyBytes = 16u << 20;

const Json* FirstChoice(const Json& answer) {
  const Json* const choices = FindField(answer, "choices");
  return choices != nullptr && choices->is_array() && !choices->empty() ? &choices->front() : nullptr;
}

// The text of a choice: of completions, of a chat's pieces, of a whole chat answer. A model that thinks aloud puts that
// into a field of its own, which is text as well.
std::string TextOf(const Json& choice) {
  if (const Json* const text = FindField(choice, "text")) return StringOf(text);
  for (const char* name : {"delta", "message"}) {
    const Json* const part = FindField(choice, name);
    if (part == nullptr) continue;
    return StringOf(FindField(*part, "reasoning_content")) + StringOf(FindField(*part, "content"));
  }
  return "";
}

std::string MessageOf(const Json& error) {
  const Json* const message = FindField(error, "message");
  return message != nullptr ? StringOf(message) : server::DumpJson(error);
}

std::string OneLine(std::string_view text) {
  std::string line = EscapeBytes(text.substr(0, kMaxMessageBytes));
  if (text.size() > kMaxMessageBytes) line += "...";
  return line;
}

// As in ReadErrorMessage, with all bytes as they came.
std::string ErrorMessage(std::string_view body) {
  const Result<Json> json = server::ParseJson(body);
  const Json* const error = json.ok() ? FindField(*json, "error") : nullptr;
  if (error == nullptr) return std::string(body);
  return error->is_string() ? StringOf(error) : MessageOf(*error);
}

}  // namespace

AnswerUsage ReadUsage(const Json& usage) {
  AnswerUsage read = {.prompt_tokens = CountOf(usage, "prompt_tokens"),
                      .completion_tokens = CountOf(usage, "completion_tokens")};
  if (const Json* const details = FindField(usage, "prompt_tokens_details")) {
    read.cached_tokens = CountOf(*details, "cached_tokens");
  }
  return read;
}

std::string ReadErrorMessage(std::string_view body) { return OneLine(ErrorMessage(body)); }

std::optional<double> AnswerSample::MsPerToken() const {
  if (gaps_ms.empty() || answer_tokens() < 2) return std::nullopt;
  double sum_ms = 0;
  for (const float gap : gaps_ms) sum_ms += gap;
  return sum_ms / static_cast<double>(answer_tokens() - 1);
}

void AnswerReader::OnHead(const server::HttpResponse& head) {
  status_ = head.status;
  for (const server::HttpHeader& header : head.headers) {
    if (header.name == "content-type") is_event_stream_ = header.value.starts_with("text/event-stream");
  }
}

void AnswerReader::OnBody(std::string_view bytes, double now_ms) {
  if (status_ != 200 || !is_event_stream_) {
    if (body_.size() + bytes.size() <= kMaxBodyBytes) body_ += bytes;
    return;
  }
  if (const Status status = events_.Feed(bytes); !status.ok()) Fail("no answer", status.message());
  while (const std::optional<std::string> data = events_.Next()) OnEvent(*data, now_ms);
}

void AnswerReader::OnEvent(const std::string& data, double now_ms) {
  if (data == "[DONE]") return;
  const Result<Json> event = server::ParseJson(data);
  if (!event.ok()) return Fail("no answer", "an event " + event.status().message());
  if (const Json* const error = FindField(*event, "error")) return Fail("error in the stream", MessageOf(*error));
  if (const Json* const usage = FindField(*event, "usage")) {
    sample_.usage = ReadUsage(*usage);
    sample_.has_usage = true;
  }
  const Json* const choice = FirstChoice(*event);
  if (choice == nullptr) return;
  OnText(TextOf(*choice), now_ms);
  is_finished_ = is_finished_ || FindField(*choice, "finish_reason") != nullptr;
}

void AnswerReader::OnText(const std::string& text, double now_ms) {
  if (text.empty()) return;
  text_ += text;
  if (!sample_.first_token_ms.has_value()) {
    sample_.first_token_ms = now_ms - sample_.begin_ms;
  } else {
    sample_.gaps_ms.push_back(static_cast<float>(now_ms - last_text_ms_));
  }
  last_text_ms_ = now_ms;
}

void AnswerReader::OnWholeBody(double now_ms) {
  const Result<Json> answer = server::ParseJson(body_);
  const Json* const choice = answer.ok() ? FirstChoice(*answer) : nullptr;
  if (choice == nullptr) return Fail("no answer", body_);
  OnText(TextOf(*choice), now_ms);
  is_finished_ = true;
  if (const Json* const usage = FindField(*answer, "usage")) {
    sample_.usage = ReadUsage(*usage);
    sample_.has_usage = true;
  }
}

void AnswerReader::OnEnd(const Status& status, double now_ms, AnswerOutcome when_cancelled) {
  sample_.latency_ms = now_ms - sample_.begin_ms;
  if (status.code() == StatusCode::kCancelled) {
    sample_.outcome = when_cancelled;
  } else if (status.code() == StatusCode::kUnavailable) {
    Fail("no connection", status.message());
  } else if (!status.ok()) {
    Fail("cut short", status.message());
  } else if (status_ != 200) {
    Fail("HTTP " + std::to_string(status_), ErrorMessage(body_));
  } else {
    if (!is_event_stream_) OnWholeBody(now_ms);
    if (!is_finished_) Fail("no answer", "the stream ended without a reason why");
    if (sample_.failure.empty()) sample_.outcome = AnswerOutcome::kDone;
  }
}

void AnswerReader::Fail(std::string failure, std::string_view message) {
  if (!sample_.failure.empty()) return;  // The first one is the cause.
  sample_.failure = std::move(failure);
  sample_.message = OneLine(message);
}

}  // namespace kvern::cli
