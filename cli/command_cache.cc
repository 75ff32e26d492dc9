// kvern cache: what a running server holds, why the last requests had to compute, and a way to empty it.
#include <CLI/CLI.hpp>

#include <nlohmann/json.hpp>
#include <string>

#include "cli/command.h"
#include "cli/exit_code.h"
#include "cli/format.h"
#include "cli/generation.h"
#include "cli/output.h"
#include "server/http_client.h"

namespace kvern::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr char kExamples[] =
    "Examples:\n"
    "  kvern cache ls\n"
    "  kvern cache why --url http://127.0.0.1:8080 --api-key KEY\n"
    "  kvern cache clear\n"
    "\n"
    "ls and clear need the key of an admin where the server has keys; why shows the requests of the key's tenant.";

uint64_t Number(const Json& object, const char* name) {
  const auto found = object.find(name);
  return found != object.end() && found->is_number_unsigned() ? found->get<uint64_t>() : 0;
}

std::string Text(const Json& object, const char* name) {
  const auto found = object.find(name);
  return found != object.end() && found->is_string() ? found->get<std::string>() : "";
}

Json Part(const Json& object, const char* name) {
  const auto found = object.find(name);
  return found != object.end() && found->is_object() ? *found : Json::object();
}

Json List(const Json& object, const char* name) {
  const auto found = object.find(name);
  return found != object.end() && found->is_array() ? *found : Json::array();
}

std::string HoldingTable(const Json& cache) {
  const Json blocks = Part(cache, "blocks"), bytes = Part(cache, "bytes"), prompts = Part(cache, "prompts");
  std::string text = FormatBytes(Number(bytes, "total")) + " in " + FormatCount(Number(blocks, "total")) +
                     " blocks: " + FormatCount(Number(blocks, "free")) + " free, " +
                     FormatCount(Number(blocks, "filling")) + " filling, " + FormatCount(Number(blocks, "full")) +
                     " full, " + FormatCount(Number(blocks, "idle")) + " idle (kept for whoever begins alike)\n";
  const uint64_t asked = Number(prompts, "lookup_tokens"), found = Number(prompts, "hit_tokens");
  text += FormatCount(found) + " of " + FormatCount(asked) + " prompt tokens were found in the cache";
  if (asked > 0) text += " (" + std::to_string(100 * found / asked) + " %)";
  text += "; computed: " + FormatCount(Number(prompts, "first_time_tokens")) + " for the first time, " +
          FormatCount(Number(prompts, "evicted_tokens")) + " that had been evicted, " +
          FormatCount(Number(prompts, "diverged_tokens")) + " after a difference\n\n";
  std::vector<std::vector<std::string>> rows = {{"who", "tokens", "blocks", "idle", "bytes", "found", "of"}};
  for (const Json& tenant : List(cache, "tenants")) {
    const std::string salt = Text(tenant, "salt");
    rows.push_back({salt.empty() ? "(everybody)" : salt, FormatCount(Number(tenant, "tokens")),
                    FormatCount(Number(tenant, "blocks")), FormatCount(Number(tenant, "idle_blocks")),
                    FormatBytes(Number(tenant, "bytes")), FormatCount(Number(tenant, "hit_tokens")),
                    FormatCount(Number(tenant, "lookup_tokens"))});
  }
  return rows.size() == 1 ? text + "nothing is cached yet\n" : text + FormatTable(rows);
}

std::string CausesTable(const Json& reply) {
  std::string text;
  for (const Json& request : List(reply, "data")) {
    const Json causes = Part(request, "prompt_causes"), divergence = Part(request, "divergence");
    text += Text(request, "request_id") + ": " + FormatCount(Number(request, "prompt_tokens")) + " tokens, " +
            FormatCount(Number(causes, "found")) + " found, " + FormatCount(Number(causes, "first_time")) +
            " for the first time, " + FormatCount(Number(causes, "evicted")) + " evicted before, " +
            FormatCount(Number(causes, "diverged")) + " after a difference\n";
    if (divergence.empty()) continue;
    const auto cached = divergence.find("cached");
    const bool is_others = cached != divergence.end() && cached->is_null();
    text += "  from token " + FormatCount(Number(divergence, "position")) + " on the cache has " +
            (is_others ? "what another tenant sent" : "\"" + EscapeBytes(Text(divergence, "cached")) + "\"") +
            ", the prompt \"" + EscapeBytes(Text(divergence, "prompt")) + "\"\n";
  }
  return text.empty() ? "no request has come yet\n" : text;
}

class CacheCommand : public Command {
 public:
  explicit CacheCommand(CLI::App& app) {
    app.add_option("ACTION", action_, "ls: what the cache holds; why: the last requests; clear: let idle blocks go")
        ->check(CLI::IsMember({"ls", "why", "clear"}))
        ->required();
    app.add_option("--url", url_, "Where the server listens")->capture_default_str()->type_name("URL");
    app.add_option("--api-key", api_key_, "The key to send")->type_name("KEY");
    app.add_flag("--json", is_json_, "What the server says, as it is");
    app.footer(kExamples);
  }

  int Run() override {
    const Result<server::HttpUrl> url = server::ParseHttpUrl(url_);
    if (!url.ok()) return FailUsage(url.status());
    const Result<Json> reply = Ask(*url);
    if (!reply.ok()) return Fail(reply.status());
    if (is_json_) {
      WriteOut(Dump(*reply));
    } else if (action_ == "ls") {
      WriteOut(HoldingTable(*reply));
    } else if (action_ == "why") {
      WriteOut(CausesTable(*reply));
    } else {
      WriteOut(FormatBytes(Number(*reply, "freed_bytes")) + " are free again\n");
    }
    return kExitDone;
  }

 private:
  Result<Json> Ask(const server::HttpUrl& url) const {
    KVERN_ASSIGN_OR_RETURN(const auto client, server::HttpClient::Create(url));
    server::HttpCall call = {.method = action_ == "clear" ? "DELETE" : "GET",
                             .path = action_ == "why" ? "/v1/cache/requests" : "/v1/cache"};
    if (!api_key_.empty()) call.headers.push_back({"Authorization", "Bearer " + api_key_});
    Result<server::HttpResponse> response = client->Ask(std::move(call));
    if (!response.ok()) {
      return Status(response.status().code(), url_ + ": " + response.status().message() + "; is kvern serve running?");
    }
    Json body = Json::parse(response->body, nullptr, /*allow_exceptions=*/false);
    if (response->status != 200) {
      const std::string message = body.is_object() ? Text(Part(body, "error"), "message") : "";
      return Status::Unavailable(url_ + " says " + std::to_string(response->status) + ": " +
                                 (message.empty() ? "no reason" : message));
    }
    if (!body.is_object())
      return Status::Corruption(url_ + " did not answer with a JSON object: is it a kvern server?");
    return body;
  }

  std::string action_;
  std::string url_ = "http://127.0.0.1:8080";
  std::string api_key_;
  bool is_json_ = false;
};

}  // namespace

std::unique_ptr<Command> MakeCacheCommand(CLI::App& app) { return std::make_unique<CacheCommand>(app); }

}  // namespace kvern::cli
