// Errors as clients of the OpenAI API expect them:
//   {"error": {"message": "...", "type": "invalid_request_error", "param": "messages[2].role", "code": null}}
#pragma once

#include <string>

#include "kvern/status.h"
#include "server/http_message.h"
#include "server/json.h"

namespace kvern::server {

struct ApiError {
  unsigned status = 400;
  std::string message;
  std::string type = "invalid_request_error";
  std::string param = {};      // The path of the field at fault, or "".
  std::string code = {};       // For programs: "model_not_found"; or "".
  unsigned retry_after_s = 0;  // 0: trying again will not help.
};

Json ToJson(const ApiError& error);
HttpResponse ToResponse(const ApiError& error);

// A reply in JSON.
HttpResponse JsonResponse(const Json& body, unsigned status = 200);

// What the client learns of an error of the engine. `param` is the field that holds the prompt.
ApiError FromEngine(const Status& status, const std::string& param);

// The error of a reply without more to say than its status: 400, 401, 403, 404, 405, 408, 413, 429, 431, 500, 501,
// 503, 505.
ApiError ErrorOfStatus(unsigned status, std::string message);

ApiError ModelIsLoading();

}  // namespace kvern::server
