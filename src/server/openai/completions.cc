#include <utility>

#include "server/openai/answer.h"
#include "server/openai/routes.h"

namespace kvern::server {
namespace {

constexpr uint32_t kDefaultMaxTokens = 16;  // The API's.

}  // namespace

HttpReply Completions(RouteContext& context) {
  const Result<Json> body = ParseJson(context.request.body);
  if (!body.ok()) return ReplyWith(context, ApiError{.message = "the body " + body.status().message()});
  FieldErrors errors;
  CompletionRequest request = ReadCompletionRequest(*body, errors);
  if (errors.first) return ReplyWith(context, *errors.first);
  const ServedModel& model = *context.model;
  if (const auto error = CheckModelName(model, request.answer.model)) return ReplyWith(context, *error);

  std::vector<EncodedPrompt> prompts;
  for (size_t i = 0; i < request.prompts.size(); ++i) {
    std::string path = request.takes_array ? "prompt[" + std::to_string(i) + "]" : "prompt";
    if (auto* tokens = std::get_if<std::vector<TokenId>>(&request.prompts[i])) {
      prompts.push_back({std::move(*tokens), std::move(path)});
      continue;
    }
    const auto& text = std::get<std::string>(request.prompts[i]);
    auto prompt = EncodePrompt(context, request.answer, text, std::move(path), /*adds_special=*/true);
    if (const auto* error = std::get_if<ApiError>(&prompt)) return ReplyWith(context, *error);
    if (context.logs_prompts) context.record->prompt += text;
    prompts.push_back(std::get<EncodedPrompt>(std::move(prompt)));
  }
  return StartAnswer(context, AnswerKind::kText, request.answer, std::move(prompts), kDefaultMaxTokens);
}

}  // namespace kvern::server
