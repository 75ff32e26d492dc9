// Any bytes as the body of a request: read or refused with a message, never a crash; and what was read is within the
// limits that the engine relies on.
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "server/json.h"
#include "server/openai/requests.h"

namespace {

using namespace kvern;
using namespace kvern::server;

void Check(bool is_true) {
  if (!is_true) std::abort();
}

void CheckError(const FieldErrors& errors) {
  Check(!errors.first->message.empty() && errors.first->status == 400);
  DumpJson(ToJson(*errors.first));
}

void CheckAnswer(const AnswerOptions& answer) {
  const SamplingOptions& sampling = answer.sampling;
  Check(sampling.Validate().ok());
  Check(answer.num_choices >= 1 && answer.num_choices <= kMaxChoices);
  Check(answer.stop.size() <= kMaxStops);
  for (const std::string& stop : answer.stop) Check(!stop.empty() && stop.size() <= kMaxStopBytes);
  Check(answer.num_top_logprobs <= kMaxTopLogprobs);
  for (const auto& [token, bias] : sampling.logit_bias) Check(token >= 0);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const Result<Json> body = ParseJson({reinterpret_cast<const char*>(data), size});
  if (!body.ok()) {
    Check(!body.status().message().empty());
    return 0;
  }
  Check(ParseJson(DumpJson(*body)).value() == *body);

  FieldErrors chat_errors;
  const ChatRequest chat = ReadChatRequest(*body, chat_errors);
  if (chat_errors.first) {
    CheckError(chat_errors);
  } else {
    CheckAnswer(chat.answer);
    Check(chat.messages.is_array() && !chat.messages.empty() && chat.tools.is_array());
    for (const Json& message : chat.messages) Check(message.at("role").is_string());
  }

  FieldErrors completion_errors;
  const CompletionRequest completion = ReadCompletionRequest(*body, completion_errors);
  if (completion_errors.first) {
    CheckError(completion_errors);
  } else {
    CheckAnswer(completion.answer);
    Check(!completion.prompts.empty() && completion.prompts.size() <= kMaxPrompts);
  }
  return 0;
}
