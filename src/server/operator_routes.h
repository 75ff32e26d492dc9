// The routes for those who run the server: is it alive, what does it do, what does its cache hold.
#pragma once

#include "server/route_context.h"

namespace kvern::server {

HttpReply Health(RouteContext& context);       // GET /health, /v1/health
HttpReply ShowMetrics(RouteContext& context);  // GET /metrics
HttpReply ShowCache(RouteContext& context);    // GET /v1/cache
HttpReply ClearCache(RouteContext& context);   // DELETE /v1/cache: idle blocks of all tenants
// GET /v1/cache/requests: what the cache did for the last requests of the caller; of all, for an admin.
HttpReply ShowRecentRequests(RouteContext& context);

}  // namespace kvern::server
