#include <utility>

#include "server/openai/answer.h"
#include "server/openai/routes.h"

namespace kvern::server {
namespace {

// The text that the chat template makes of a conversation.
std::variant<std::string, ApiError> Render(const ServedModel& model, const ChatRequest& request) {
  if (!model.render_chat) {
    return ApiError{.message = "messages: the model " + model.id +
                               " has no chat template; use /v1/completions, or a model that is made for chat",
                    .param = "messages",
                    .code = "no_chat_template"};
  }
  if (!request.tools.empty() && !model.template_knows_tools) {
    return ApiError{.message = "tools: the chat template of this model does not know tools", .param = "tools"};
  }
  Result<std::string> text = model.render_chat({.messages = request.messages,
                                                .tools = request.tools,
                                                .arguments = request.template_arguments,
                                                .adds_generation_prompt = request.adds_generation_prompt});
  if (text.ok()) return std::move(text).value();
  // A template that loops is the file's fault, but its input is what makes it loop.
  const bool is_of_client =
      text.status().code() == StatusCode::kInvalidArgument || text.status().code() == StatusCode::kResourceExhausted;
  return ApiError{.status = is_of_client ? 400u : 500u,
                  .message = "messages: " + text.status().message(),
                  .type = is_of_client ? "invalid_request_error" : "server_error",
                  .param = "messages",
                  .code = "template_error"};
}

}  // namespace

HttpReply ChatCompletions(RouteContext& context) {
  const Result<Json> body = ParseJson(context.request.body);
  if (!body.ok()) return ReplyWith(context, ApiError{.message = "the body " + body.status().message()});
  FieldErrors errors;
  const ChatRequest request = ReadChatRequest(*body, errors);
  if (errors.first) return ReplyWith(context, *errors.first);
  const ServedModel& model = *context.model;
  if (const auto error = CheckModelName(model, request.answer.model)) return ReplyWith(context, *error);

  const auto text = Render(model, request);
  if (const auto* error = std::get_if<ApiError>(&text)) return ReplyWith(context, *error);
  // The template writes the tokens that stand at the beginning itself.
  auto prompt = EncodePrompt(context, request.answer, std::get<std::string>(text), "messages", /*adds_special=*/false);
  if (const auto* error = std::get_if<ApiError>(&prompt)) return ReplyWith(context, *error);
  if (context.logs_prompts) context.record->prompt = std::get<std::string>(text);
  std::vector<EncodedPrompt> prompts;
  prompts.push_back(std::get<EncodedPrompt>(std::move(prompt)));
  return StartAnswer(context, AnswerKind::kChat, request.answer, std::move(prompts), model.default_max_tokens);
}

HttpReply ApplyTemplate(RouteContext& context) {
  const Result<Json> body = ParseJson(context.request.body);
  if (!body.ok()) return ReplyWith(context, ApiError{.message = "the body " + body.status().message()});
  FieldErrors errors;
  FieldReader fields(*body, "", errors);
  ChatRequest request;
  ReadConversation(fields, request);
  if (errors.first) return ReplyWith(context, *errors.first);

  const auto text = Render(*context.model, request);
  if (const auto* error = std::get_if<ApiError>(&text)) return ReplyWith(context, *error);
  return ReplyWith(Json{{"prompt", std::get<std::string>(text)}});
}

}  // namespace kvern::server
