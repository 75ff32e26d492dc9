// Asking a server that runs: what kvern cache and kvern bench serve have in common.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "kvern/status.h"
#include "server/http_client.h"
#include "server/json.h"

namespace kvern::cli {

// Whom to ask, as the user says it.
struct ServerAccess {
  std::string url;
  std::string api_key;  // May be "".

  // kInvalidArgument where the key would not fit into a header.
  Status Validate() const;
  // Without the /v1 that the base URL of OpenAI's own clients ends in. Errors as of ParseHttpUrl.
  Result<server::HttpUrl> Address() const;
  // Of every request.
  std::vector<server::HttpHeader> Headers() const;
};

// Sends `call` with the headers of `access` and waits for the reply, which must be a JSON object. Ctrl-C hangs up. What
// is not 200 is kUnavailable with the server's message; errors name the URL and what was asked.
Result<server::Json> AskServer(server::HttpClient& client, const ServerAccess& access, server::HttpCall call);

}  // namespace kvern::cli
