// Api: all routes of a kvern server behind one HttpHandler: who may call, with which limits, and what is logged of it.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "server/access_log.h"
#include "server/http_message.h"
#include "server/http_server.h"
#include "server/metrics.h"
#include "server/route_context.h"
#include "server/served_model.h"
#include "server/tenants.h"

namespace kvern::server {

struct ApiOptions {
  std::optional<ApiKeys> keys;              // None: everybody may call, as one tenant.
  std::string cors_origin;                  // "https://chat.example": pages of this origin may call. "": no pages may.
  uint32_t max_requests_per_tenant = 1024;  // In flight.
  bool logs_prompts = false;
  Status Validate() const;
};

// All routes, for the tests that hold them against docs/openapi.json.
std::span<const Route> AllRoutes();

class Api : public HttpHandler {
 public:
  // log: may be null.
  Api(ApiOptions options, std::unique_ptr<AccessLog> log);
  ~Api() override;

  // From now on the routes that need a model serve. Once; before that they say that it loads. Any thread.
  void SetModel(ServedModel model);
  // Where /metrics gets the numbers of connections. Before the server starts.
  void SetServerStats(std::function<HttpServerStats()> stats) { server_stats_ = std::move(stats); }

  std::optional<HttpReply> CheckHead(const HttpRequest& head) override;
  HttpReply Handle(HttpRequest request) override;
  HttpReply Refuse(const HttpRequest& request, unsigned status, const std::string& message) override;

 private:
  // A route and what stands for {id}; or why there is none.
  struct Match {
    const Route* route = nullptr;
    std::string_view parameter = {};
    std::string allowed = {};  // Methods that the path has, where not the one asked for.
  };
  static Match FindRoute(const HttpRequest& request);
  // Whose request it is; nullptr where the key is unknown.
  const Tenant* FindTenant(const HttpRequest& request) const;
  std::shared_ptr<RequestRecord> MakeRecord(const HttpRequest& request) const;
  HttpReply Preflight(const HttpRequest& request);
  // Adds the headers that every reply has, and its line in the log.
  HttpReply Finish(HttpReply reply, const HttpRequest& request, const std::shared_ptr<RequestRecord>& record);
  HttpReply FinishError(const ApiError& error, const HttpRequest& request,
                        const std::shared_ptr<RequestRecord>& record);

  const ApiOptions options_;
  const Tenant everybody_;
  const std::unique_ptr<AccessLog> log_;
  std::function<HttpServerStats()> server_stats_;
  TenantSlots slots_;
  Metrics metrics_;
  RecentRequests recent_;
  GeneratedTexts generated_;
  std::unique_ptr<const ServedModel> model_owner_;
  std::atomic<const ServedModel*> model_ = nullptr;
};

}  // namespace kvern::server
