// kvern cache: what a running server holds, why the last requests had to compute, and a way to empty it.
#include <CLI/CLI.hpp>

#include <string>

#include "cli/command.h"
#include "cli/exit_code.h"
#include "cli/generation.h"
#include "cli/output.h"
#include "cli/served_cache.h"
#include "cli/server_call.h"

namespace kvern::cli {
namespace {

using server::Json;

constexpr char kExamples[] =
    "Examples:\n"
    "  kvern cache ls\n"
    "  kvern cache why --url http://127.0.0.1:8080 --api-key KEY\n"
    "\n"
    "ls and clear need the key of an admin where the server has keys; why shows the requests of the key's tenant.";

class CacheCommand : public Command {
 public:
  explicit CacheCommand(CLI::App& app) {
    app.add_option("ACTION", action_, "ls: what the cache holds; why: the last requests; clear: let idle blocks go")
        ->check(CLI::IsMember({"ls", "why", "clear"}))
        ->required();
    app.add_option("--url", server_.url, "Where the server listens")->capture_default_str()->type_name("URL");
    app.add_option("--api-key", server_.api_key, "The key to send")->type_name("KEY");
    app.add_flag("--json", is_json_, "What the server says, as it is");
    app.footer(kExamples);
  }

  int Run() override {
    if (const Status status = server_.Validate(); !status.ok()) return FailUsage(status);
    const Result<server::HttpUrl> address = server_.Address();
    if (!address.ok()) return FailUsage(address.status());
    const Result<Json> reply = Ask(*address);
    if (!reply.ok()) return Fail(reply.status());
    if (is_json_) {
      WriteOut(Dump(*reply));
    } else if (action_ == "ls") {
      WriteOut(HoldingText(*reply));
    } else if (action_ == "why") {
      WriteOut(CausesText(*reply));
    } else {
      WriteOut(ClearedText(*reply));
    }
    return kExitDone;
  }

 private:
  Result<Json> Ask(const server::HttpUrl& address) const {
    KVERN_ASSIGN_OR_RETURN(const auto client, server::HttpClient::Create(address));
    return AskServer(*client, server_,
                     {.method = action_ == "clear" ? "DELETE" : "GET",
                      .path = action_ == "why" ? "/v1/cache/requests" : "/v1/cache"});
  }

  std::string action_;
  ServerAccess server_ = {.url = "http://127.0.0.1:8080", .api_key = ""};
  bool is_json_ = false;
};

}  // namespace

std::unique_ptr<Command> MakeCacheCommand(CLI::App& app) { return std::make_unique<CacheCommand>(app); }

}  // namespace kvern::cli
