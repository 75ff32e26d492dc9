// What a route is given besides the request, and the shape of all routes.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "server/api_error.h"
#include "server/generated_texts.h"
#include "server/http_message.h"
#include "server/metrics.h"
#include "server/recent_requests.h"
#include "server/request_record.h"
#include "server/served_model.h"
#include "server/tenants.h"

namespace kvern::server {

struct RouteContext {
  const HttpRequest& request;
  std::string_view parameter;  // What stands for {id} in the path.
  const ServedModel* model;    // Null while it loads: only routes that serve without it see that.
  const Tenant& tenant;
  TenantSlots& slots;
  const Metrics& metrics;
  const RecentRequests& recent;
  GeneratedTexts& generated;
  const HttpServerStats server_stats;
  bool logs_prompts;
  std::shared_ptr<RequestRecord> record;
};

using RouteFunction = HttpReply (*)(RouteContext& context);

// Who may call a route, and when.
enum class RouteAccess : uint8_t {
  kPublic,  // Everybody, also while the model loads.
  kTenant,  // Who has a key, once the model is there.
  kAdmin,   // Who has a key of an admin; also while the model loads.
};

struct Route {
  std::string_view method;
  std::string_view path;  // May end with "/{id}".
  RouteAccess access;
  RouteFunction run;
};

inline HttpReply ReplyWith(HttpResponse response) { return {.response = std::move(response), .source = nullptr}; }
inline HttpReply ReplyWith(const Json& body) { return ReplyWith(JsonResponse(body)); }
// Notes the message for the log, too.
inline HttpReply ReplyWith(RouteContext& context, const ApiError& error) {
  context.record->error = error.message;
  return ReplyWith(ToResponse(error));
}

}  // namespace kvern::server
