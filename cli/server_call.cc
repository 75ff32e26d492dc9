#include "cli/server_call.h"

#include <utility>

#include "cli/interrupt.h"
#include "cli/load_answer.h"

namespace kvern::cli {

using server::HttpResponse;
using server::HttpUrl;
using server::Json;

Status ServerAccess::Validate() const {
  for (const char c : api_key) {
    if (c <= ' ' || c > '~') return Status::InvalidArgument("--api-key: expected printable ASCII without spaces");
  }
  return Status::Ok();
}

Result<HttpUrl> ServerAccess::Address() const {
  KVERN_ASSIGN_OR_RETURN(HttpUrl address, server::ParseHttpUrl(url));
  if (address.path.ends_with("/v1")) address.path.resize(address.path.size() - 3);
  return address;
}

std::vector<server::HttpHeader> ServerAccess::Headers() const {
  std::vector<server::HttpHeader> headers = {{"Content-Type", "application/json"}};
  if (!api_key.empty()) headers.push_back({"Authorization", "Bearer " + api_key});
  return headers;
}

Result<Json> AskServer(server::HttpClient& client, const ServerAccess& access, server::HttpCall call) {
  call.headers = access.Headers();
  const std::string what = access.url + ": " + call.method + " " + call.path;
  const OnInterrupt hang_up([&client] { client.HangUp(); });
  const Result<HttpResponse> reply = client.Ask(std::move(call));
  if (!reply.ok()) {
    const bool is_absent = reply.status().code() == StatusCode::kUnavailable;
    return Status(reply.status().code(),
                  what + ": " + reply.status().message() + (is_absent ? "; is a server running there?" : ""));
  }
  if (reply->status != 200) {
    const std::string message = ReadErrorMessage(reply->body);
    return Status::Unavailable(what + ": HTTP " + std::to_string(reply->status) +
                               (message.empty() ? " without a reason" : ": " + message));
  }
  Result<Json> json = server::ParseJson(reply->body);
  if (!json.ok()) return Status::Corruption(what + ": the reply " + json.status().message());
  if (!json->is_object()) return Status::Corruption(what + ": the reply is no JSON object");
  return json;
}

}  // namespace kvern::cli
