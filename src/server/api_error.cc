#include "server/api_error.h"

#include <utility>

namespace kvern::server {
namespace {

Json TextOrNull(const std::string& text) { return text.empty() ? Json(nullptr) : Json(text); }

const char* TypeOf(unsigned status) {
  switch (status) {
    case 401: return "authentication_error";
    case 403: return "permission_error";
    case 404: return "not_found_error";
    case 429: return "rate_limit_error";
    case 500: return "server_error";
    case 501: return "not_supported_error";
    case 503: return "unavailable_error";
    default: return "invalid_request_error";
  }
}

}  // namespace

Json ToJson(const ApiError& error) {
  return {{"error",
           {{"message", error.message},
            {"type", error.type},
            {"param", TextOrNull(error.param)},
            {"code", TextOrNull(error.code)}}}};
}

HttpResponse ToResponse(const ApiError& error) {
  HttpResponse response = JsonResponse(ToJson(error), error.status);
  if (error.retry_after_s > 0) response.headers.push_back({"Retry-After", std::to_string(error.retry_after_s)});
  return response;
}

HttpResponse JsonResponse(const Json& body, unsigned status) {
  return {.status = status, .headers = {{"Content-Type", "application/json"}}, .body = DumpJson(body)};
}

ApiError FromEngine(const Status& status, const std::string& param) {
  switch (status.code()) {
    case StatusCode::kInvalidArgument: return {.status = 400, .message = status.message(), .param = param};
    case StatusCode::kResourceExhausted:
      return {.status = 400, .message = status.message(), .param = param, .code = "exceeds_memory"};
    case StatusCode::kUnavailable:
      return {.status = 429,
              .message = status.message(),
              .type = "rate_limit_error",
              .code = "queue_full",
              .retry_after_s = 1};
    case StatusCode::kCancelled:
      return {.status = 503,
              .message = "the server is shutting down",
              .type = "unavailable_error",
              .code = "shutting_down",
              .retry_after_s = 5};
    default: return ErrorOfStatus(500, status.ToString());
  }
}

ApiError ErrorOfStatus(unsigned status, std::string message) {
  return {.status = status,
          .message = std::move(message),
          .type = TypeOf(status),
          .retry_after_s = status == 429 || status == 503 ? 1u : 0u};
}

ApiError ModelIsLoading() {
  return {.status = 503,
          .message = "Loading model",
          .type = "unavailable_error",
          .code = "model_loading",
          .retry_after_s = 2};
}

}  // namespace kvern::server
