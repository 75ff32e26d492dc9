#include "server/api.h"

#include <algorithm>
#include <utility>

#include "server/http_format.h"
#include "server/openai/routes.h"
#include "server/operator_routes.h"
#include "server/random_id.h"

namespace kvern::server {
namespace {

constexpr Route kRoutes[] = {
    {"POST", "/v1/chat/completions", RouteAccess::kTenant, ChatCompletions},
    {"POST", "/v1/completions", RouteAccess::kTenant, Completions},
    {"GET", "/v1/models", RouteAccess::kTenant, ListModels},
    {"GET", "/v1/models/{id}", RouteAccess::kTenant, ShowModel},
    {"POST", "/tokenize", RouteAccess::kTenant, TokenizeText},
    {"POST", "/detokenize", RouteAccess::kTenant, Detokenize},
    {"POST", "/apply-template", RouteAccess::kTenant, ApplyTemplate},
    {"GET", "/health", RouteAccess::kPublic, Health},
    {"GET", "/v1/health", RouteAccess::kPublic, Health},
    {"GET", "/metrics", RouteAccess::kAdmin, ShowMetrics},
    {"GET", "/v1/cache", RouteAccess::kAdmin, ShowCache},
    {"DELETE", "/v1/cache", RouteAccess::kAdmin, ClearCache},
    {"GET", "/v1/cache/requests", RouteAccess::kTenant, ShowRecentRequests},
};

constexpr std::string_view kParameter = "/{id}";
constexpr size_t kMaxRequestIdBytes = 128;

// Whether `path` is one of `route`, and what stands for its parameter.
bool Matches(const Route& route, std::string_view path, std::string_view& parameter) {
  if (!route.path.ends_with(kParameter)) return path == route.path;
  const std::string_view begin = route.path.substr(0, route.path.size() - kParameter.size() + 1);
  if (!path.starts_with(begin) || path.size() == begin.size()) return false;
  parameter = path.substr(begin.size());
  return true;
}

bool IsRequestId(std::string_view id) {
  return !id.empty() && id.size() <= kMaxRequestIdBytes && std::ranges::all_of(id, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_' ||
           c == '.';
  });
}

// Browsers send a page's simple requests without asking first, and keep the reply from it alone. They say so.
bool IsFromOtherSite(const HttpRequest& request) {
  const std::string_view site = request.Header("sec-fetch-site");
  return request.method != "GET" && request.method != "HEAD" && (site == "cross-site" || site == "same-site");
}

}  // namespace

std::span<const Route> AllRoutes() { return kRoutes; }

Status ApiOptions::Validate() const {
  if (max_requests_per_tenant == 0) return Status::InvalidArgument("max_requests_per_tenant is 0, expected 1 or more");
  const size_t scheme = cors_origin.find("://");
  const bool is_origin = scheme != 0 && scheme != std::string::npos && scheme + 3 < cors_origin.size() &&
                         cors_origin.find_first_of("/?#*, ", scheme + 3) == std::string::npos &&
                         LowerCase(cors_origin) == cors_origin;
  if (cors_origin.empty() || is_origin) return Status::Ok();
  return Status::InvalidArgument("cors_origin is '" + cors_origin +
                                 "', expected one origin as browsers send it: https://chat.example, without a path");
}

Api::Api(ApiOptions options, std::unique_ptr<AccessLog> log)
    : options_(std::move(options)),
      everybody_{.name = "default", .cache_group = "", .is_admin = true},
      log_(std::move(log)),
      slots_(options_.max_requests_per_tenant) {}

Api::~Api() = default;

void Api::SetModel(ServedModel model) {
  model.max_token_bytes = LongestToken(model.engine.tokenizer());
  model_owner_ = std::make_unique<const ServedModel>(std::move(model));
  model_ = model_owner_.get();
}

Api::Match Api::FindRoute(const HttpRequest& request) {
  Match match;
  for (const Route& route : kRoutes) {
    if (!Matches(route, request.path, match.parameter)) continue;
    if (route.method == request.method || (route.method == "GET" && request.method == "HEAD")) {
      match.route = &route;
      return match;
    }
    match.allowed += (match.allowed.empty() ? "" : ", ") + std::string(route.method);
  }
  return match;
}

const Tenant* Api::FindTenant(const HttpRequest& request) const {
  if (!options_.keys.has_value()) return &everybody_;
  constexpr std::string_view kBearer = "bearer ";
  std::string_view key = request.Header("x-api-key");
  if (const std::string_view authorization = request.Header("authorization");
      LowerCase(authorization.substr(0, kBearer.size())) == kBearer) {
    key = authorization.substr(kBearer.size());
  }
  return options_.keys->Find(key);
}

std::shared_ptr<RequestRecord> Api::MakeRecord(const HttpRequest& request) const {
  auto record = std::make_shared<RequestRecord>();
  const std::string_view id = request.Header("x-request-id");
  record->id = IsRequestId(id) ? std::string(id) : RandomHex128();
  record->remote = request.remote;
  record->method = request.method;
  record->path = request.path;
  if (const Match match = FindRoute(request); match.route != nullptr) record->route = match.route->path;
  return record;
}

std::optional<HttpReply> Api::CheckHead(const HttpRequest& head) {
  if (head.method == "OPTIONS" && !options_.cors_origin.empty()) return Preflight(head);
  const Match match = FindRoute(head);
  if (match.route != nullptr && match.route->access == RouteAccess::kPublic) return std::nullopt;
  const auto record = MakeRecord(head);
  if (const std::string_view origin = head.Header("origin"); IsFromOtherSite(head) && origin != options_.cors_origin) {
    return FinishError(
        ErrorOfStatus(403, "pages of " + ShortText(origin) + " may not call this server: --cors-origin names who may"),
        head, record);
  }
  const Tenant* const tenant = FindTenant(head);
  if (tenant == nullptr) {
    const bool has_key = !head.Header("authorization").empty() || !head.Header("x-api-key").empty();
    ApiError error = ErrorOfStatus(
        401, has_key ? "the API key is not valid" : "an API key is needed: send Authorization: Bearer KEY");
    error.code = "invalid_api_key";
    HttpReply reply = FinishError(error, head, record);
    reply.response.headers.push_back({"WWW-Authenticate", "Bearer"});
    return reply;
  }
  record->tenant = tenant->name;
  if (match.route == nullptr && !match.allowed.empty()) {
    HttpReply reply =
        FinishError(ErrorOfStatus(405, head.path + " takes " + match.allowed + ", not " + head.method), head, record);
    reply.response.headers.push_back({"Allow", match.allowed});
    return reply;
  }
  if (match.route == nullptr) {
    return FinishError(ErrorOfStatus(404, "there is no " + head.path + "; docs/api.md lists what there is"), head,
                       record);
  }
  if (match.route->access == RouteAccess::kAdmin) {
    if (tenant->is_admin) return std::nullopt;
    return FinishError(ErrorOfStatus(403, head.path + " tells about all tenants: it needs the key of an admin"), head,
                       record);
  }
  if (model_ == nullptr) return FinishError(ModelIsLoading(), head, record);
  return std::nullopt;
}

HttpReply Api::Handle(HttpRequest request) {
  const auto record = MakeRecord(request);
  const Match match = FindRoute(request);
  const Tenant* const tenant = FindTenant(request);
  if (match.route == nullptr || (tenant == nullptr && match.route->access != RouteAccess::kPublic)) {
    return FinishError(ErrorOfStatus(404, "there is no " + request.path), request, record);  // CheckHead saw to it.
  }
  record->tenant = tenant == nullptr ? "" : tenant->name;
  RouteContext context = {.request = request,
                          .parameter = match.parameter,
                          .model = model_,
                          .tenant = tenant == nullptr ? everybody_ : *tenant,
                          .slots = slots_,
                          .metrics = metrics_,
                          .recent = recent_,
                          .generated = generated_,
                          .server_stats = server_stats_ ? server_stats_() : HttpServerStats{},
                          .logs_prompts = options_.logs_prompts,
                          .record = record};
  try {
    return Finish(match.route->run(context), request, record);
  } catch (const std::exception& error) {  // Out of memory, most likely.
    return FinishError(ErrorOfStatus(500, std::string("the request could not be handled: ") + error.what()), request,
                       record);
  }
}

HttpReply Api::Refuse(const HttpRequest& request, unsigned status, const std::string& message) {
  return FinishError(ErrorOfStatus(status, message), request, MakeRecord(request));
}

HttpReply Api::Preflight(const HttpRequest& request) {
  HttpReply reply;
  reply.response.status = 204;
  if (request.Header("origin") == options_.cors_origin) {  // Others learn by its absence that they may not.
    reply.response.headers = {{"Access-Control-Allow-Methods", "GET, POST, DELETE"},
                              {"Access-Control-Allow-Headers", "authorization, content-type, x-api-key, x-request-id"},
                              {"Access-Control-Max-Age", "600"}};
  }
  return Finish(std::move(reply), request, MakeRecord(request));
}

HttpReply Api::FinishError(const ApiError& error, const HttpRequest& request,
                           const std::shared_ptr<RequestRecord>& record) {
  record->error = error.message;
  return Finish(ReplyWith(ToResponse(error)), request, record);
}

HttpReply Api::Finish(HttpReply reply, const HttpRequest& request, const std::shared_ptr<RequestRecord>& record) {
  auto& headers = reply.response.headers;
  headers.push_back({"X-Request-Id", record->id});
  if (!options_.cors_origin.empty()) {
    if (request.Header("origin") == options_.cors_origin) {
      headers.push_back({"Access-Control-Allow-Origin", options_.cors_origin});
      headers.push_back({"Access-Control-Expose-Headers", "x-request-id, retry-after"});
    }
    headers.push_back({"Vary", "Origin"});
  }
  reply.on_end = [this, record](const HttpOutcome& outcome) {
    metrics_.Add(*record, outcome);
    recent_.Add(*record);
    if (log_ != nullptr) log_->Write(*record, outcome);
  };
  return reply;
}

}  // namespace kvern::server
